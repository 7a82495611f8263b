"""Messages as columns: every column, every kind of body, and invalid bytes."""

import json
from base64 import b64encode
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinbus.amqp.codec import encode
from twinbus.amqp.messaging import (
    AmqpSequence,
    AmqpValue,
    Body,
    Data,
    Header,
    Properties,
    decode_message,
    encode_message,
)
from twinbus.amqp.messaging import Message as Sent
from twinbus.amqp.types import (
    AmqpArray,
    Char,
    Described,
    Float32,
    Int,
    Symbol,
    Timestamp,
    UInt,
    ULong,
)
from twinbus.broker.message import DEFERRED, SCHEDULED, Annex, Message
from twinbus.encoding.columns import COLUMNS, MessageColumns
from twinbus.encoding.incoming import read_message

NUMBER = 42
ID = UUID("00112233-4455-6677-8899-aabbccddeeff")
INSIDE = [
    *("application_property_types", "amqp_types"),
    *("message_id", "to", "subject", "reply_to", "correlation_id", "content_type"),
    *("session_id", "reply_to_session_id", "partition_key"),
    *("application_properties", "body"),
]


def row_of(message: Message, *names: str) -> dict[str, object]:
    columns = MessageColumns(names or COLUMNS)
    columns.extend([message], [NUMBER])
    assert columns.count == 1
    row = {}
    for name, values in columns.columns.items():
        (row[name],) = values
    return row


def value_of(message: Message, name: str) -> object:
    return row_of(message, name)[name]


def sent(**parts: object) -> Message:
    return read_message(encode_message(Sent(**parts)))  # type: ignore[arg-type]


def bytes_alone(raw: bytes) -> Message:
    """As if a store had them."""
    return Message(raw, 0, 0, 0)


def section(code: int, value: bytes) -> bytes:
    return bytes((0, 0x53, code)) + value


# --- every column -----------------------------------------------------------------


def test_every_column_of_a_full_message() -> None:
    message = sent(
        header=Header(ttl=UInt(60_000)),
        message_annotations={Symbol("x-opt-partition-key"): "p"},
        properties=Properties(
            message_id="m",
            to="t",
            subject="s",
            reply_to="r",
            correlation_id="c",
            content_type="text/plain",
            group_id="g",
            reply_to_group_id="rg",
        ),
        application_properties={"colour": "red"},
        body=Data((b"hello",)),
    )
    message.enqueued_at = 1_700_000_000_123
    message.expires_at = message.enqueued_at + 60_000
    message.scheduled_at = 1_600_000_000_000
    message.delivery_count = 3
    message.annex = Annex(
        dead_letter_reason="why",
        dead_letter_description="because",
        dead_letter_source="orders",
    )
    row = row_of(message)
    assert tuple(row) == COLUMNS
    delivered = decode_message(row.pop("raw"))  # type: ignore[arg-type]
    assert delivered.body == Data((b"hello",))
    assert row == {
        "sequence_number": NUMBER,
        "enqueued_time": 1_700_000_000_123_000,
        "time_to_live_ms": 60_000,
        "scheduled_time": 1_600_000_000_000_000,
        "expires_at": 1_700_000_060_123_000,
        "delivery_count": 3,
        "state": "active",
        "dead_letter_source": "orders",
        "dead_letter_reason": "why",
        "dead_letter_description": "because",
        "size_bytes": len(message.raw),
        "message_id": "m",
        "to": "t",
        "subject": "s",
        "reply_to": "r",
        "correlation_id": "c",
        "content_type": "text/plain",
        "session_id": "g",
        "reply_to_session_id": "rg",
        "partition_key": "p",
        "application_properties": [("colour", "red")],
        "application_property_types": None,
        "body": b"hello",
        "amqp_types": None,
    }


def test_microseconds_are_those_of_the_time() -> None:
    message = sent(body=Data((b"",)))
    message.enqueued_at = 1_700_000_000_123
    seconds = value_of(message, "enqueued_time") / 1_000_000  # type: ignore[operator]
    moment = datetime.fromtimestamp(seconds, UTC)
    assert moment.isoformat(timespec="milliseconds") == "2023-11-14T22:13:20.123+00:00"


def test_instant_that_has_too_many_microseconds_is_null() -> None:
    """A sender may name any; the others are the bus's."""
    message = sent(body=Data((b"",)))
    latest = ((1 << 63) - 1) // 1000
    for named, shown in ((latest, latest * 1000), (latest + 1, None), (1 << 62, None)):
        message.scheduled_at = named
        assert value_of(message, "scheduled_time") == shown


def test_bare_message_has_nulls() -> None:
    row = row_of(sent(body=Data((b"",))))
    assert row["body"] == b""
    assert row["application_properties"] == []
    for name in (
        *("time_to_live_ms", "scheduled_time", "expires_at", "partition_key"),
        *("dead_letter_source", "dead_letter_reason", "dead_letter_description"),
        *("message_id", "to", "subject", "reply_to", "correlation_id"),
        *("content_type", "session_id", "reply_to_session_id"),
    ):
        assert row[name] is None, name


@pytest.mark.parametrize(
    ("state", "text"), [(DEFERRED, "deferred"), (SCHEDULED, "scheduled")]
)
def test_states_have_names(state: int, text: str) -> None:
    message = sent(body=Data((b"",)))
    message.state = state
    assert value_of(message, "state") == text


def test_raw_is_what_a_receiver_gets() -> None:
    message = sent(
        properties=Properties(message_id="m"),
        application_properties={"a": 1},
        body=AmqpValue("x"),
    )
    message.enqueued_at = 5_000
    message.delivery_count = 2
    message.annex = Annex(dead_letter_reason="why", modified={"b": encode("two")})
    found = decode_message(value_of(message, "raw"))  # type: ignore[arg-type]
    annotations = found.message_annotations
    assert annotations is not None and found.header is not None
    assert annotations["x-opt-sequence-number"] == NUMBER
    assert annotations["x-opt-enqueued-time"] == 5_000
    assert found.header.delivery_count == 2
    assert found.application_properties == {
        "a": 1,
        "b": "two",
        "DeadLetterReason": "why",
    }
    assert "x-opt-locked-until" not in annotations


def test_only_what_is_wanted_is_there_and_in_that_order() -> None:
    columns = MessageColumns(["body", "sequence_number"])
    messages = [sent(body=Data((text,))) for text in (b"a", b"b")]
    columns.extend(messages[:1], [7])
    columns.extend(messages[1:], [8])
    assert columns.columns == {"body": [b"a", b"b"], "sequence_number": [7, 8]}
    assert list(columns.columns) == ["body", "sequence_number"]
    assert columns.count == 2


# --- identifiers ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("identifier", "text"),
    [
        ("", ""),
        ("\u00e9\U0001f680", "\u00e9\U0001f680"),
        ("\u00e9" * 128, "\u00e9" * 128),
        (ULong(0), "0"),
        (ULong(2**64 - 1), "18446744073709551615"),
        (ID, "00112233-4455-6677-8899-aabbccddeeff"),
        (b"\x00\xff", "AP8="),
    ],
)
def test_identifiers_of_every_type_are_texts(identifier: object, text: str) -> None:
    properties = Properties(message_id=identifier, correlation_id=identifier)
    message = sent(properties=properties, body=Data((b"",)))
    assert value_of(message, "message_id") == text
    assert value_of(message, "correlation_id") == text


def test_identifier_that_is_no_text_is_null() -> None:
    """A short string of bytes that are not UTF-8."""
    broken = section(0x73, b"\xc0\x05\x01\xa1\x02\xff\xfe")
    row = row_of(bytes_alone(broken + section(0x75, b"\xa0\x01x")), *INSIDE)
    assert (row["message_id"], row["body"]) == (None, b"x")


def test_partition_key_is_found_among_others() -> None:
    annotations = {Symbol("x-other"): 1, Symbol("x-opt-partition-key"): "\u00e9" * 128}
    found = value_of(sent(message_annotations=annotations), "partition_key")
    assert found == "\u00e9" * 128
    annotations = {Symbol("x-opt-partition-key"): None}
    assert value_of(sent(message_annotations=annotations), "partition_key") is None


# --- application properties -------------------------------------------------------


def test_values_of_properties_are_texts() -> None:
    properties: dict[object, object] = {
        "text": "t",
        "long": "l" * 300,
        "null": None,
        "true": True,
        "false": False,
        "int": Int(-5),
        "double": 1.5,
        "float": Float32(0.5),
        "time": Timestamp(1_000),
        "uuid": ID,
        "bytes": b"\x01",
        "char": Char("c"),
        "symbol": Symbol("s"),
        "described": Described(Symbol("com.microsoft:timespan"), 5),
        "": "no name",
        "n" * 300: "long name",
    }
    message = sent(application_properties=properties)
    assert dict(value_of(message, "application_properties")) == {  # type: ignore[call-overload]
        "text": "t",
        "long": "l" * 300,
        "null": None,
        "true": "true",
        "false": "false",
        "int": "-5",
        "double": "1.5",
        "float": "0.5",
        "time": "1000",
        "uuid": str(ID),
        "bytes": "AQ==",
        "char": "c",
        "symbol": "s",
        "described": "5",
        "": "no name",
        "n" * 300: "long name",
    }


def test_properties_that_a_settlement_set_count() -> None:
    message = sent(application_properties={"a": "sent", "b": "sent"})
    modified = {"b": encode("set"), "c": encode(7), "d": encode(None)}
    message.annex = Annex(modified=modified)
    assert value_of(message, "application_properties") == [
        ("a", "sent"),
        ("b", "set"),
        ("c", "7"),
        ("d", None),
    ]
    bare = sent(body=Data((b"",)))
    bare.annex = Annex(modified={"a": encode("set")})
    assert value_of(bare, "application_properties") == [("a", "set")]


def test_types_of_properties_that_are_not_strings() -> None:
    timespan = Described(Symbol("com.microsoft:timespan"), 5)
    properties: dict[str, object] = {
        "text": "t",
        "long text": "l" * 300,
        "null": None,
        "n": 7,
        "ok": True,
        "small": UInt(0),
        "span": timespan,
    }
    message = sent(application_properties=properties)
    opaque = f"amqp:{b64encode(encode(timespan)).decode()}"
    assert value_of(message, "application_property_types") == [
        ("n", "long"),
        ("ok", "boolean"),
        ("small", "uint"),
        ("span", opaque),
    ]
    # A settlement may give a value another type.
    message.annex = Annex(modified={"n": encode("seven"), "ok": encode(Int(1))})
    assert value_of(message, "application_property_types") == [
        ("ok", "int"),
        ("small", "uint"),
        ("span", opaque),
    ]


def test_a_string_that_is_not_utf8_keeps_its_bytes_as_type() -> None:
    bad = b"\xa1\x01\xff"
    entries = b"\xc1\x07\x02" + encode("a") + bad
    row = row_of(bytes_alone(section(0x74, entries)))
    assert row["application_properties"] == [("a", None)]
    expected = [("a", f"amqp:{b64encode(bad).decode()}")]
    assert row["application_property_types"] == expected


# --- bodies -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (Data((b"one",)), None),
        (Data((b"x" * 300,)), None),
        (Data((b"one", b"two")), "sections"),
        (AmqpValue("text"), "value:string"),
        (AmqpValue(b"bytes"), "value:binary"),
        (AmqpValue(Int(5)), "value:int"),
        (AmqpValue(None), "value:null"),
        (AmqpValue({"a": 1}), "value"),
        (AmqpValue(float("nan")), "value"),
        (AmqpSequence(([1, 2],)), "sequence"),
        (None, "none"),
    ],
)
def test_type_of_a_body(body: Body | None, expected: str | None) -> None:
    message = encode_message(Sent(properties=Properties(subject="s"), body=body))
    found = value_of(bytes_alone(message), "amqp_types")
    assert found == (None if expected is None else [("body", expected)])


def test_types_of_ids_that_are_not_strings() -> None:
    properties = Properties(message_id=ID, correlation_id=ULong(7))
    message = sent(properties=properties, body=Data((b"",)))
    assert value_of(message, "amqp_types") == [
        ("message_id", "uuid"),
        ("correlation_id", "ulong"),
    ]
    long_id = sent(properties=Properties(message_id="\u00e9" * 128), body=Data((b"",)))
    assert value_of(long_id, "amqp_types") is None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (Data((b"one",)), b"one"),
        (Data((b"x" * 300,)), b"x" * 300),
        (Data((b"one", b"", b"x" * 300, b"two")), b"one" + b"x" * 300 + b"two"),
        (AmqpValue("text \u00e9"), "text \u00e9".encode()),
        (AmqpValue(Symbol("symbol")), b"symbol"),
        (AmqpValue(b"\x00\xff"), b"\x00\xff"),
        (AmqpValue(None), None),
        (AmqpValue(True), b"true"),
        (AmqpValue(Int(5)), b"5"),
        (AmqpValue(1.5), b"1.5"),
        (AmqpValue(ID), str(ID).encode()),
        (AmqpValue(Described(Symbol("d"), "inside")), b'"inside"'),
        (None, None),
    ],
)
def test_body_of_every_kind(body: Body | None, expected: bytes | None) -> None:
    assert value_of(sent(body=body), "body") == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1, "a", None, [True]], [1, "a", None, [True]]),
        ({"a": {"b": [1]}, 5: "number"}, {"a": {"b": [1]}, "5": "number"}),
        ({"bytes": b"\x01", "time": Timestamp(5)}, {"bytes": "AQ==", "time": 5}),
        (AmqpArray(0x71, [Int(1), Int(2)]), [1, 2]),
        ([AmqpArray(0xB1, ["a"])], [["a"]]),
    ],
)
def test_values_that_are_no_text_are_json(value: object, expected: object) -> None:
    body = value_of(sent(body=AmqpValue(value)), "body")
    assert isinstance(body, bytes)
    assert json.loads(body) == expected


def test_sequences_are_one_list() -> None:
    one = sent(body=AmqpSequence(([1, "a"],)))
    assert value_of(one, "body") == b'[1, "a"]'
    several = sent(body=AmqpSequence(([1], [], ["a", [2]])))
    assert value_of(several, "body") == b'[1, "a", [2]]'


# --- what is broken ---------------------------------------------------------------

GOOD_BODY = section(0x75, b"\xa0\x04good")


@pytest.mark.parametrize(
    "broken",
    [
        section(0x73, b"\xc0\xff\x01"),
        section(0x73, b"\xc0\x03\x0d\xa1\x01"),
        section(0x73, b"\xc0\x02\x0d\x40"),
        section(0x73, b"\xc0\x01\xff"),
        section(0x73, b"\xa1\x01x"),
        section(0x73, b"\x45"),
    ],
)
def test_broken_properties_are_null(broken: bytes) -> None:
    row = row_of(bytes_alone(broken + GOOD_BODY), *INSIDE)
    assert (row["message_id"], row["session_id"]) == (None, None)


@pytest.mark.parametrize(
    "broken",
    [
        section(0x74, b"\xc1\x03\x02\xa1\x09"),
        section(0x74, b"\xc1\x01\x03"),
        section(0x74, b"\xc1\x04\x01\xa1\x01a"),
        section(0x74, b"\xa1\x01x"),
        section(0x74, b"\xc1\x01\xff"),
    ],
)
def test_broken_application_properties_are_none(broken: bytes) -> None:
    row = row_of(bytes_alone(broken + GOOD_BODY), *INSIDE)
    assert row["application_properties"] == []
    assert row["body"] in (b"good", None)


def test_key_that_is_no_text_is_left_out() -> None:
    entries = b"\x54\x01\xa1\x01x" + b"\xa1\x01a\xa1\x01y"
    broken = section(0x74, bytes((0xC1, len(entries) + 1, 4)) + entries)
    row = row_of(bytes_alone(broken + GOOD_BODY), *INSIDE)
    assert row["application_properties"] == [("a", "y")]
    assert row["body"] == b"good"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x00",
        b"\x00\x53\x75",
        b"\x00\x53\x75\xa0",
        b"\x00\x53\x75\xa0\x05abc",
        b"\x00\x53\x75\xb0\xff\xff\xff\xff",
        b"\x00\x53\x75\xa1\x01x",
        b"\x00\x53\x76\xa1\x01x",
        b"\x00\x53\x77",
        b"\x00\x53\x99\x40",
        b"not a message at all",
        section(0x77, b"\x73\x00\x00\xd8\x00"),
        section(0x76, b"\x45") + section(0x75, b"\x40"),
        section(0x75, b"\xa0\x01a")
        + section(0x77, b"\x40")
        + section(0x75, b"\xa0\x00"),
        section(0x76, b"\x45") + section(0x73, b"\x45") + section(0x76, b"\x45"),
    ],
)
def test_broken_bytes_are_null_and_no_error(raw: bytes) -> None:
    row = row_of(bytes_alone(raw), *INSIDE)
    assert row.pop("application_properties") == []
    # Whoever sends it on must know that this row is not the whole message.
    [(name, kind)] = row.pop("amqp_types")  # type: ignore[misc]
    assert name == "body"
    assert kind in ("unreadable", "value", "sequence", "sections")
    assert set(row.values()) == {None}


def check(message: Message) -> None:
    """All columns have a value of their type, whatever the bytes are."""
    row = row_of(message, *INSIDE)
    properties, body = row.pop("application_properties"), row.pop("body")
    assert isinstance(properties, list)
    for name, value in properties:
        assert isinstance(name, str)
        assert value is None or isinstance(value, str)
    assert body is None or isinstance(body, bytes)
    for types in (row.pop("application_property_types"), row.pop("amqp_types")):
        assert types is None or isinstance(types, list)
        assert all(isinstance(text, str) for entry in types or () for text in entry)
    for value in row.values():
        assert value is None or isinstance(value, str)


FULL = encode_message(
    Sent(
        header=Header(ttl=UInt(5)),
        message_annotations={Symbol("x-opt-partition-key"): "p"},
        properties=Properties(message_id=ID, group_id="g", subject="s" * 300),
        application_properties={"a": 1, "b": [1, {"c": b"d"}], "t": Timestamp(5)},
        body=AmqpValue({"list": [1, 2.5, None], "x": AmqpArray(0x71, [Int(1)])}),
    )
)


@given(st.binary(max_size=60))
def test_any_bytes_are_got_past(raw: bytes) -> None:
    check(bytes_alone(raw))


@given(
    st.lists(
        st.tuples(st.integers(0, len(FULL) - 1), st.integers(0, 255)),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, len(FULL)),
)
def test_any_message_with_wrong_bytes_is_got_past(
    changes: list[tuple[int, int]], length: int
) -> None:
    raw = bytearray(FULL)
    for at, value in changes:
        raw[at] = value
    check(bytes_alone(bytes(raw)))
    check(bytes_alone(bytes(raw[:length])))


@given(st.binary(max_size=30), st.sampled_from([0x72, 0x73, 0x74, 0x75, 0x76, 0x77]))
def test_any_section_is_got_past(value: bytes, code: int) -> None:
    check(bytes_alone(section(code, value) + GOOD_BODY))
    check(bytes_alone(GOOD_BODY + section(code, value)))
