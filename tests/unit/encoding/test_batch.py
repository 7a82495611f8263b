"""Batches: the messages in an envelope are split and otherwise unchanged."""

import pytest

from twinbus.amqp.messaging import AmqpValue, Data, Header, Message, encode_message
from twinbus.encoding.batch import read_batch
from twinbus.errors import ArgumentError, MessageSizeExceeded

ONE = encode_message(Message(body=AmqpValue("one")))
TWO = encode_message(Message(header=Header(ttl=5), body=Data((bytes(300),))))


def envelope(*messages: bytes) -> bytes:
    return encode_message(Message(body=Data(messages)))


def test_messages_come_out_in_order_and_untouched() -> None:
    found = read_batch(envelope(ONE, TWO, ONE))
    assert [message.raw for message in found] == [ONE, TWO, ONE]
    assert [message.ttl_ms for message in found] == [0, 5, 0]


def test_properties_of_the_envelope_are_no_messages() -> None:
    header = encode_message(Message(header=Header(ttl=7), message_annotations={"a": 1}))
    [found] = read_batch(header + envelope(ONE))
    assert (found.raw, found.ttl_ms) == (ONE, 0)


@pytest.mark.parametrize("raw", [b"", encode_message(Message(body=AmqpValue(1)))])
def test_empty_batches_are_refused(raw: bytes) -> None:
    with pytest.raises(ArgumentError, match="no messages"):
        read_batch(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"\x00\x53\x75\xa1\x04\x00\x53\x77\x40",
        b"\x00\x53\x75\x40",
        b"\x00\x53\x01\x40",
        envelope(ONE, b"\xa1\x02no"),
        envelope(ONE, ONE[:-1]),
    ],
)
def test_malformed_batches_are_refused(raw: bytes) -> None:
    with pytest.raises(ArgumentError, match="malformed"):
        read_batch(raw)


def test_batch_cut_off_anywhere_is_refused_or_shorter() -> None:
    whole = envelope(ONE, TWO)
    for end in range(len(whole)):
        try:
            found = read_batch(whole[:end])
        except (ArgumentError, MessageSizeExceeded):
            continue
        assert [message.raw for message in found] == [ONE]
