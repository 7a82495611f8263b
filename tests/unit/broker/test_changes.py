"""A change set is empty until something needs a commit, and sealed only once."""

import pytest

from twinbus.broker.changes import ChangeSet, LedgerId, LedgerRange, OutboxEntry
from twinbus.broker.message import Message
from twinbus.broker.operation_log import PING
from twinbus.broker.operation_record import decode_operations

from .world import ACTOR, NOW, Place, bodies

ENTRY = OutboxEntry(entry_id=1, target="t", raw=b"", origin=b"")
RANGE = LedgerRange(source="s", generation=b"", first=1, last=1)
IDENTITY = LedgerId(fragment_number=0, unique_id=b"", forget_at=1)


@pytest.mark.parametrize(
    ("column", "item"),
    [
        ("active_changed", Message(b"", 0, 0, 0)),
        ("deferred_changed", Message(b"", 0, 0, 0)),
        ("dropped", 1),
        ("outbox_added", ENTRY),
        ("outbox_removed", 1),
        ("ledger_ranges", RANGE),
        ("ledger_ids", IDENTITY),
    ],
)
def test_anything_to_write_asks_for_a_commit(column: str, item: object) -> None:
    changes = ChangeSet()
    assert changes.is_empty()
    getattr(changes, column).append(item)
    assert not changes.is_empty()


def test_touched_fragment_asks_for_a_commit_and_is_written_once(place: Place) -> None:
    place.queue.touch(place.changes)
    place.queue.touch(place.changes)
    assert not place.changes.is_empty()
    assert place.commit().records == [place.queue.record()]


def test_operations_of_the_log_alone_can_wait() -> None:
    changes = ChangeSet()
    changes.log.add(1, 2, 3, 4, 5, 6)
    assert changes.is_empty()


def test_seal_notes_number_epoch_and_time() -> None:
    changes = ChangeSet()
    changes.seal(3, 7, NOW)
    assert (changes.epoch, changes.batch, changes.sealed_at) == (3, 7, NOW)


def test_messages_are_visible_with_their_own_commit(place: Place) -> None:
    place.queue.enqueue(Message(b"one", 0, 0, 0), 1, NOW, place.changes)
    first, place.changes = place.changes, ChangeSet()
    first.seal(place.epoch, 2, NOW)
    place.queue.enqueue(Message(b"two", 0, 0, 0), 1, NOW, place.changes)
    first.publish()
    assert bodies(place.queue.window.ready_messages()) == [b"one"]
    assert first.pending_bytes == 3


def test_ping_asks_for_a_commit_and_touches_nothing(place: Place) -> None:
    place.queue.take_ping(40, ACTOR, NOW, place.changes)
    assert not place.changes.is_empty()
    committed = place.commit()
    assert (committed.touched, place.queue.ping_count) == ([], 1)
    [run] = decode_operations(committed.log.encode(NOW)).runs
    assert (run.operation, run.actor) == (PING, ACTOR)
    assert (run.first_row_id, run.message_count, run.size_bytes) == (
        place.queue.base,
        1,
        40,
    )


def restored(first: int, source: str = "s") -> LedgerRange:
    return LedgerRange(source=source, generation=b"g", first=first, last=first)


def test_restores_in_order_are_one_range() -> None:
    changes = ChangeSet()
    for added in (1, 2, 3, 5, 6, 4):
        changes.add_restored(restored(added))
    changes.add_restored(restored(5, "t"))
    found = [(item.source, item.first, item.last) for item in changes.ledger_ranges]
    assert found == [("s", 1, 3), ("s", 5, 6), ("s", 4, 4), ("t", 5, 5)]
