"""Messages read from a store have the right expiry."""

import pytest

from twinbus.broker.message import (
    ACTIVE,
    DEFERRED,
    NOWHERE,
    SCHEDULED,
    Annex,
    restored_message,
)


@pytest.mark.parametrize(
    ("state", "ttl_ms", "expires_at"),
    [(ACTIVE, 5, 105), (DEFERRED, 5, 105), (SCHEDULED, 5, 0), (ACTIVE, 0, 0)],
)
def test_restored_message_is_what_was_kept(
    state: int, ttl_ms: int, expires_at: int
) -> None:
    annex = Annex(dead_letter_reason="why")
    message = restored_message(7, b"raw", 9, 100, ttl_ms, 3, state, 200, annex)
    assert (message.row_id, message.raw, message.layout) == (7, b"raw", 9)
    assert (message.enqueued_at, message.ttl_ms) == (100, ttl_ms)
    assert (message.delivery_count, message.state) == (3, state)
    assert (message.scheduled_at, message.annex) == (200, annex)
    assert (message.expires_at, message.place) == (expires_at, NOWHERE)
