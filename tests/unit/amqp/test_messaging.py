"""Whole messages: exact types of their values, and malformed messages."""

from uuid import UUID

import pytest

from twinbus.amqp.codec import encode
from twinbus.amqp.errors import DecodeError
from twinbus.amqp.messaging import (
    AmqpSequence,
    AmqpValue,
    Body,
    Data,
    Header,
    Message,
    Properties,
    decode_message,
    encode_message,
)
from twinbus.amqp.types import Described, Symbol, Timestamp, UInt, ULong


def test_a_message_comes_back_with_all_its_sections() -> None:
    message = Message(
        header=Header(durable=True, priority=4, ttl=1000, delivery_count=2),
        delivery_annotations={Symbol("d"): 1},
        message_annotations={Symbol("x-opt-enqueued-time"): Timestamp(5)},
        properties=Properties(message_id="m", group_id="g", creation_time=Timestamp(7)),
        application_properties={"a": UInt(1), "b": Described(Symbol("t"), 2)},
        body=Data((b"one", b"two")),
        footer={Symbol("f"): b"x"},
    )
    assert decode_message(encode_message(message)) == message


@pytest.mark.parametrize(
    "body",
    [
        None,
        Data((b"",)),
        AmqpSequence(([1, "a"], [])),
        AmqpValue(None),
        AmqpValue({"k": [1]}),
    ],
)
def test_every_kind_of_body_comes_back(body: Body | None) -> None:
    assert decode_message(encode_message(Message(body=body))).body == body


@pytest.mark.parametrize(
    "message_id",
    ["text", ULong(7), UUID("12345678-1234-5678-1234-567812345678"), b"\x01"],
)
def test_an_identifier_keeps_its_type(message_id: object) -> None:
    sent = Message(properties=Properties(message_id=message_id))
    properties = decode_message(encode_message(sent)).properties
    assert properties is not None
    assert properties.message_id == message_id
    assert type(properties.message_id) is type(message_id)


def test_a_plain_number_as_identifier_is_a_ulong() -> None:
    sent = Message(properties=Properties(correlation_id=7))
    properties = decode_message(encode_message(sent)).properties
    assert properties is not None
    assert type(properties.correlation_id) is ULong


def test_sections_are_known_by_name_too() -> None:
    payload = encode(Described(Symbol("amqp:amqp-value:*"), "x"))
    assert decode_message(payload).body == AmqpValue("x")


@pytest.mark.parametrize(
    "sections",
    [
        ["x"],
        [Described(ULong(0x99), {})],
        [Described(ULong(0x77), 1), Described(ULong(0x70), [])],
        [Described(ULong(0x72), {}), Described(ULong(0x72), {})],
        [Described(ULong(0x72), [])],
        [Described(ULong(0x75), "text")],
        [Described(ULong(0x75), b""), Described(ULong(0x77), 1)],
        [Described(ULong(0x77), 1), Described(ULong(0x77), 1)],
        [Described(Symbol("unknown"), 1)],
    ],
)
def test_malformed_messages_are_a_decode_error(sections: list[object]) -> None:
    with pytest.raises(DecodeError):
        decode_message(b"".join(encode(section) for section in sections))
