"""A received message is made sendable, without what the bus had added."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinbus.amqp.messaging import (
    AmqpSequence,
    AmqpValue,
    Data,
    Header,
    Message,
    Properties,
    decode_message,
    encode_message,
)
from twinbus.amqp.types import Int, Short, Symbol, Timestamp, UByte
from twinbus.broker.message import Annex
from twinbus.encoding.incoming import read_message
from twinbus.encoding.layout import IDENTIFIED, IN_TRANSFER
from twinbus.encoding.outgoing import encode_delivery
from twinbus.encoding.resending import ResendChanges, resendable
from twinbus.errors import ArgumentError

NOW = 1_800_000_000_000
TOKEN = bytes(range(16))

SENT = [
    Message(body=Data((b"x",))),
    Message(properties=Properties(message_id="m"), body=AmqpValue(None)),
    Message(header=Header(durable=True, priority=7, ttl=5000), body=Data((b"",))),
    Message(
        header=Header(ttl=1),
        message_annotations={Symbol("x-opt-partition-key"): "k", Symbol("x-own"): 1},
        properties=Properties(
            message_id=UUID(int=1),
            user_id=b"me",
            correlation_id=77,
            content_type="a/b",
            group_id="s",
            group_sequence=3,
        ),
        application_properties={
            "byte": UByte(1),
            "short": Short(-2),
            "int": Int(3),
            "time": Timestamp(NOW),
            "bytes": b"\xff",
            "none": None,
        },
        body=Data((b"in", b"parts")),
        footer={Symbol("sum"): 1},
    ),
    Message(
        delivery_annotations={Symbol("x-way"): "there"},
        body=AmqpSequence(([1], ["two"])),
    ),
]


def delivered(sent: bytes, layout: int = 0, locked_until: int = 0) -> bytes:
    message = read_message(sent, IDENTIFIED)
    message.layout |= layout
    message.enqueued_at = NOW
    message.delivery_count = 3
    if message.ttl_ms:
        message.expires_at = NOW + message.ttl_ms
    return encode_delivery(message, 77, locked_until, TOKEN if locked_until else b"")


@pytest.mark.parametrize("sent", SENT)
@pytest.mark.parametrize("locked_until", [0, NOW])
def test_a_message_comes_out_as_it_was_sent(sent: Message, locked_until: int) -> None:
    encoded = encode_message(sent)
    again = resendable(delivered(encoded, locked_until=locked_until))
    assert decode_message(again) == decode_message(encoded)
    assert read_message(again).raw == again


@pytest.mark.parametrize("sent", SENT)
def test_a_message_that_nobody_received_is_left_as_it_is(sent: Message) -> None:
    encoded = encode_message(sent)
    assert decode_message(resendable(encoded)) == decode_message(encoded)


def test_ids_of_an_earlier_way_are_left_out_and_the_new_one_is_in() -> None:
    sent = Message(
        message_annotations={
            Symbol("x-opt-twinbus-send-id"): b"old",
            Symbol("x-opt-twinbus-restored-from"): "1@g@q",
            Symbol("x-own"): "kept",
        },
        body=Data((b"x",)),
    )
    received = delivered(encode_message(sent), IN_TRANSFER)
    assert b"old" in received
    again = decode_message(resendable(received, b"new"))
    assert again.message_annotations == {
        "x-own": "kept",
        "x-opt-twinbus-send-id": b"new",
    }
    assert decode_message(resendable(received)).message_annotations == {"x-own": "kept"}


def test_the_reason_of_a_dead_letter_is_a_property_and_stays() -> None:
    message = read_message(encode_message(SENT[0]))
    message.annex = Annex(dead_letter_reason="why", dead_letter_source="orders")
    again = decode_message(resendable(encode_delivery(message, 1, 0)))
    assert again.message_annotations is None
    assert again.application_properties == {"DeadLetterReason": "why"}


def test_sections_with_long_descriptors_are_read() -> None:
    # As `canonical` does: a ulong of eight bytes instead of one.
    long = b"\x00\x80" + (0x75).to_bytes(8, "big") + b"\xa0\x01x"
    assert resendable(long) == b"\x00\x53\x75\xa0\x01x"


@pytest.mark.parametrize(
    "raw", [b"", b"hello", b"\x00\x53\x75", b"\x00\x53\x70\x40", bytes(100)]
)
def test_bytes_that_are_no_message(raw: bytes) -> None:
    with pytest.raises(ArgumentError):
        resendable(raw)


@given(st.binary(max_size=60), st.sampled_from(SENT), st.integers(0, 200))
def test_any_bytes_are_a_message_or_refused(
    noise: bytes, sent: Message, at: int
) -> None:
    encoded = delivered(encode_message(sent))
    damaged = encoded[:at] + noise + encoded[at + len(noise) :]
    try:
        again = resendable(damaged)
    except ArgumentError:
        return
    read_message(again)


SCHEDULED = Symbol("x-opt-scheduled-enqueue-time")
DAY_MS = 86_400_000


@pytest.mark.parametrize("sent", SENT)
def test_without_changes_nothing_changes(sent: Message) -> None:
    received = delivered(encode_message(sent))
    assert resendable(received, None, ResendChanges()) == resendable(received)


@pytest.mark.parametrize("sent", SENT)
def test_a_time_to_live_of_its_own_is_left_out(sent: Message) -> None:
    received = delivered(encode_message(sent))
    again = decode_message(resendable(received, None, ResendChanges(drops_life=True)))
    assert again.header is None or again.header.ttl is None
    assert again.body == sent.body
    assert again.application_properties == sent.application_properties


@pytest.mark.parametrize("sent", SENT)
@pytest.mark.parametrize("left_ms", [1, 5_000, (1 << 32) - 1, 1 << 32, 100 * DAY_MS])
def test_a_message_expires_when_it_would_have(sent: Message, left_ms: int) -> None:
    received = delivered(encode_message(sent))
    changes = ResendChanges(expires_at=NOW + left_ms, now=NOW)
    again = resendable(received, None, changes)
    assert read_message(again).ttl_ms == left_ms
    made = decode_message(again)
    assert made.body == sent.body and made.footer == sent.footer
    if sent.header is not None:
        assert made.header is None or made.header.priority == sent.header.priority


def test_a_schedule_is_left_out_and_the_origin_is_in() -> None:
    sent = Message(
        message_annotations={SCHEDULED: Timestamp(NOW), Symbol("x-own"): 1},
        body=Data((b"x",)),
    )
    encoded = encode_message(sent)
    changes = ResendChanges(restored_from="7@g@lake", drops_schedule=True)
    again = decode_message(resendable(encoded, b"id", changes))
    assert again.message_annotations == {
        "x-own": 1,
        "x-opt-twinbus-send-id": b"id",
        "x-opt-twinbus-restored-from": "7@g@lake",
    }
    kept = decode_message(resendable(encoded)).message_annotations or {}
    assert kept[SCHEDULED] == NOW


@given(st.binary(max_size=60), st.sampled_from(SENT), st.integers(0, 200))
def test_any_bytes_with_changes_are_a_message_or_refused(
    noise: bytes, sent: Message, at: int
) -> None:
    encoded = delivered(encode_message(sent))
    damaged = encoded[:at] + noise + encoded[at + len(noise) :]
    changes = ResendChanges(expires_at=NOW + (1 << 33), now=NOW)
    try:
        again = resendable(damaged, b"id", changes)
    except ArgumentError:
        return
    read_message(again)


def test_nulls_that_an_sdk_writes_after_its_properties_stay() -> None:
    """The vendor's SDK writes all thirteen fields; the bytes are to be the same."""
    fields = b"\xa1\x01m" + b"\x40" * 12
    properties = b"\x00\x53\x73\xc0" + bytes((len(fields) + 1, 13)) + fields
    body = b"\x00\x53\x75\xa0\x01x"
    assert resendable(properties + body) == properties + body
