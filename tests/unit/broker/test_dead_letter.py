"""A dead letter is a new message with the same bytes and a history."""

from twinbus.broker.dead_letter import dead_letter_of
from twinbus.broker.message import Annex, Message


def test_dead_letter_keeps_bytes_and_count_and_says_where_it_is_from() -> None:
    message = Message(b"raw", 9, 50, 60)
    message.delivery_count = 4
    dead = dead_letter_of(message, "orders", 17, "why", "because", b"u" * 16)
    assert dead.uid == b"", "it was nowhere before"
    assert (dead.raw, dead.layout, dead.delivery_count) == (b"raw", 9, 4)
    assert (dead.ttl_ms, dead.scheduled_at, dead.expires_at) == (0, 0, 0)
    assert dead.annex == Annex(
        dead_letter_reason="why",
        dead_letter_description="because",
        dead_letter_source="orders",
        enqueued_sequence_number=17,
    )


def test_number_at_the_first_entity_and_modified_properties_are_kept() -> None:
    message = Message(b"raw", 0, 0, 0)
    message.annex = Annex(modified={"a": b"\x41"}, enqueued_sequence_number=3)
    message.row_id = 5
    dead = dead_letter_of(message, "orders", 17, None, None, b"u" * 16)
    assert dead.uid == b"u" * 16 + bytes([0, 0, 0, 0, 0, 0, 0, 5])
    assert dead.annex == Annex(
        dead_letter_source="orders", modified={"a": b"\x41"}, enqueued_sequence_number=3
    )
