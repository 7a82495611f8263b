"""References to secrets: read when they are used; errors do not show the content."""

from pathlib import Path

import pytest

from twinbus.client.secret_reference import (
    UnreadableReference,
    is_reference,
    read_reference,
)


def test_a_variable_or_a_file_has_the_secret(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(" hush \n")
    assert read_reference(f"file:{tmp_path / 'secret'}", {}) == "hush"
    assert read_reference("env:BUS", {"BUS": "hush\n"}) == "hush"


def test_other_texts_are_no_references() -> None:
    assert is_reference("env:BUS") and is_reference("file:/bus")
    assert not is_reference("Endpoint=sb://h;SharedAccessKey=env:hush")


@pytest.mark.parametrize("environment", [{}, {"BUS": ""}, {"BUS": " "}])
def test_a_missing_variable_is_named(environment: dict[str, str]) -> None:
    with pytest.raises(UnreadableReference, match="there is no variable BUS"):
        read_reference("env:BUS", environment)


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "No such file"), (b" \n", "is empty"), (b"hush\xff", "not a text")],
)
def test_a_file_that_cannot_be_used_is_named(
    tmp_path: Path, content: bytes | None, why: str
) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UnreadableReference, match=why) as refused:
        read_reference(f"file:{file}", {})
    assert str(file) in str(refused.value)
    assert "hush" not in str(refused.value)
    assert refused.value.__context__ is None
