"""The envelope of a message between two stores."""

import pytest

from twinbus.amqp.codec import encode
from twinbus.broker.message import Annex, Message
from twinbus.encoding.envelope import decode_envelope, encode_envelope


def test_envelope_keeps_what_the_bus_knows() -> None:
    message = Message(b"raw bytes", 1 << 20 | 0xFFFF, 60_000, 1 << 42)
    message.session_id = "blau grün"
    message.annex = Annex(
        dead_letter_reason="why",
        dead_letter_source="orders",
        modified={"name": b"\xa1\x01x"},
        enqueued_sequence_number=15 << 48 | 3,
        forwarded_count=4,
    )
    found = decode_envelope(encode_envelope(message))
    for name in ("raw", "layout", "ttl_ms", "scheduled_at", "session_id", "annex"):
        assert getattr(found, name) == getattr(message, name), name


def test_envelope_of_a_plain_message_is_short() -> None:
    envelope = encode_envelope(Message(b"raw", 0, 0, 0))
    assert len(envelope) < 30
    found = decode_envelope(envelope)
    assert (found.raw, found.session_id, found.annex) == (b"raw", None, None)


def test_envelope_of_a_newer_bus_is_refused() -> None:
    with pytest.raises(ValueError, match="format 2"):
        decode_envelope(encode([2, "whatever"]) + b"raw")
