"""JSON of strangers: a value, or an error that names what was read."""

import pytest

from twinbus.encoding.json_reading import as_object, read_json, read_object, read_texts
from twinbus.errors import ArgumentError


def test_values_are_read_from_text_and_from_utf_8() -> None:
    assert read_json('{"a": [1, "ä"]}', "It") == {"a": [1, "ä"]}
    assert read_json('"ä"'.encode(), "It") == "ä"
    assert read_object(b'{"a": null}', "It") == {"a": None}
    assert read_texts('["a", ""]', "It") == ["a", ""]


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"{", b"{'a': 1}", b"1 2", b"NaN", b"-Infinity", b"\xff"),
        *(b'"\xed\xa0\x80"', '"a"'.encode("utf-16"), b"9" * 100_000),
    ],
    ids=lambda text: repr(text[:9]),
)
def test_what_is_not_json_is_refused(text: bytes) -> None:
    with pytest.raises(ArgumentError, match=r"^The body is not valid JSON: "):
        read_json(text, "The body")


@pytest.mark.parametrize("part", ["[", '{"a":'])
def test_depth_is_limited(part: str) -> None:
    with pytest.raises(ArgumentError, match="'rule' is nested too deeply"):
        read_json(part * 100_000, "'rule'")


@pytest.mark.parametrize("text", ["[]", "1", "null", '"x"'])
def test_an_object_is_asked_for(text: str) -> None:
    with pytest.raises(ArgumentError, match="The fault must be a JSON object"):
        read_object(text, "The fault")
    with pytest.raises(ArgumentError, match="The fault must be a JSON object"):
        as_object(read_json(text, "It"), "The fault")


@pytest.mark.parametrize("text", ["{}", "[1]", '["a", null]', '"a"'])
def test_a_list_of_texts_is_asked_for(text: str) -> None:
    with pytest.raises(ArgumentError, match="'rights' must be a JSON list of texts"):
        read_texts(text, "'rights'")
