"""Messages as JSON: checked, encoded, and the same again when they are read."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinbus.amqp.messaging import (
    AmqpSequence,
    AmqpValue,
    Data,
    Message,
    Properties,
    decode_message,
    encode_message,
)
from twinbus.amqp.types import Int, ULong
from twinbus.cli.messages.message_draft import (
    Draft,
    DraftError,
    check_draft,
    encoded_drafts,
    property_of,
)
from twinbus.cli.messages.message_json import message_json

NOW = 1_700_000_000_000


def encoded(draft: Draft) -> bytes:
    [payload] = encoded_drafts([check_draft(draft)], NOW)
    return payload


def test_types_of_properties_are_kept() -> None:
    payload = encoded(
        {
            "application_properties": {"n": "7", "m": 7, "d": 0.5, "b": True, "s": "7"},
            "application_property_types": {"n": "int"},
        }
    )
    properties: Any = decode_message(payload).application_properties
    assert properties == {"n": 7, "m": 7, "d": 0.5, "b": True, "s": "7"}
    kinds = [type(properties[name]) for name in "nmdbs"]
    assert kinds == [Int, int, float, bool, str]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
drafts = st.fixed_dictionaries(
    {},
    optional={
        "body": texts,
        "message_id": st.text("ab", min_size=1),
        "session_id": texts,
        "partition_key": texts,
        "subject": texts,
        "content_type": st.sampled_from(["text/plain", "x"]),
        "time_to_live_ms": st.integers(1, 10**13),
        "application_properties": st.dictionaries(
            st.text("xyz", min_size=1), texts, min_size=1
        ),
    },
)


@given(drafts)
def test_what_is_read_is_what_was_written(draft: Draft) -> None:
    shown = message_json(encoded(draft))
    expected = {"body": "", **draft}
    assert {name: shown.get(name) for name in expected} == expected
    assert message_json(encoded(shown)) == shown


@pytest.mark.parametrize(
    "body",
    [
        AmqpValue("text"),
        AmqpValue(7),
        AmqpValue(None),
        AmqpValue({"a": [1, 2]}),
        AmqpSequence(([1, "x"],)),
        Data((b"\xff",)),
        Data((b"a", b"b")),
        None,
    ],
)
def test_every_kind_of_body_survives(body: Any) -> None:
    properties = Properties(message_id=ULong(7), subject="s")
    sent = encode_message(Message(properties=properties, body=body))
    again = decode_message(encoded(message_json(sent)))
    assert again.body == body
    assert again.properties is not None
    assert (again.properties.message_id, again.properties.subject) == (7, "s")


@pytest.mark.parametrize(
    ("draft", "told"),
    [
        ([], "must be a JSON object"),
        ({"bodi": "x"}, "no field 'bodi'"),
        ({"body": "x", "body_base64": "eA=="}, "not both"),
        ({"body": 7}, "'body' must be a text"),
        ({"body_base64": "?"}, "must be base64"),
        ({"time_to_live_ms": 0}, "at least 1"),
        ({"scheduled_time": "soon"}, "ISO 8601"),
        ({"content_type": "\xe4"}, "must be ASCII"),
        ({"raw": "AAAA"}, "'raw' is not a message"),
        ({"application_properties": {"n": []}}, "'n' must be a text, number"),
        (
            {
                "application_properties": {"n": "x"},
                "application_property_types": {"n": "int"},
            },
            "'n' has the type int: it must be a whole number",
        ),
        ({"body": "x", "amqp_types": {"body": "sequence"}}, "only 'raw' gives it back"),
        ({"amqp_types": {"subject": "int"}}, "may have those of message_id"),
    ],
)
def test_what_is_no_message_is_explained(draft: Any, told: str) -> None:
    with pytest.raises(DraftError, match=told):
        encoded(draft)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("n=int:7", ("n", "int", "7")),
        ("n=7", ("n", None, "7")),
        ("url=http://x", ("url", None, "http://x")),
        ("s=string:int:7", ("s", None, "int:7")),
        ("e=", ("e", None, "")),
    ],
)
def test_property_of_a_flag_may_have_a_type(text: str, found: Any) -> None:
    assert property_of(text) == found


@pytest.mark.parametrize("text", ["n", "=7", "n=int:x", "n=ubyte:256"])
def test_property_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(DraftError):
        property_of(text)
