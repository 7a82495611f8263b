"""Settling by numbers: rows, counters, sizes, shared bodies and the log."""

import pytest

from twinbus.broker import operation_log, range_settlement
from twinbus.broker.message import ACTIVE, DEFERRED, Message
from twinbus.broker.outline import Outlines
from twinbus.broker.row_id import sequence_of

from .world import ACTOR, NOW, Place, run


def outlines(place: Place, first: int = 0, last: int = 99) -> Outlines:
    found = run(place.store.outlines(place.queue.number, first, last, 99))
    assert isinstance(found, Outlines)
    return found


def numbered(place: Place, *numbers: int) -> list[Message]:
    base = place.queue.base
    found = run(place.store.read_numbered([base + number for number in numbers]))
    assert isinstance(found, list)
    return found


def counts(place: Place) -> tuple[int, int, int]:
    record = run(place.store.fragments())[0]
    return record.active_count, record.deferred_count, record.size_bytes


def numbers_on_disk(place: Place) -> list[int]:
    found = run(place.store.browse(place.queue.number, 0, 99, 1 << 20))
    return [sequence_of(message.row_id) for message in found]


def test_range_is_completed_without_its_bytes(place: Place) -> None:
    place.send(b"1", b"22", b"333")
    range_settlement.complete(place.queue, outlines(place, 1, 2), 7, NOW, place.changes)
    logged = place.runs()
    assert {(one.operation, one.actor) for one in logged} == {
        (operation_log.COMPLETE, 7)
    }
    assert sum(one.message_count for one in logged) == 2
    place.commit()
    assert counts(place) == (1, 0, 3)
    assert numbers_on_disk(place) == [3]


def test_completing_nothing_changes_nothing(place: Place) -> None:
    range_settlement.complete(place.queue, Outlines(), ACTOR, NOW, place.changes)
    assert place.changes.is_empty()


def test_shared_bodies_are_released(place: Place) -> None:
    for body_id in (0, 9):
        message = Message(b"shared", 0, 0, 0)
        message.body_id, message.is_shared = body_id, body_id != 0
        place.queue.enqueue(message, ACTOR, NOW, place.changes)
    added = Outlines()
    for message in place.changes.active_added:
        body_id = message.body_id if message.is_shared else 0
        added.add(message.row_id, NOW, len(message.raw), body_id)
    place.changes.active_added.clear()
    range_settlement.complete(place.queue, added, ACTOR, NOW, place.changes)
    assert place.changes.bodies_released == [9]
    assert place.queue.size_bytes == 0


def test_what_the_open_change_set_removes_is_left_out() -> None:
    found = Outlines()
    for row_id in (1, 2, 3):
        found.add(row_id, 10 * row_id, 100 * row_id, 7 * row_id)
    assert found.without(set()) is found
    assert found.without({4, 5}) is found
    staying = found.without({2, 5})
    assert staying.row_ids == [1, 3]
    assert staying.enqueued_at == [10, 30]
    assert (staying.sizes, staying.body_ids) == ([100, 300], [7, 21])


def test_deferred_message_waits_for_its_number(place: Place) -> None:
    place.send(b"1", b"22")
    (message,) = numbered(place, 2)
    range_settlement.defer(place.queue, message, ACTOR, NOW, place.changes)
    assert [logged.operation for logged in place.runs()] == [operation_log.DEFER]
    place.commit()
    assert counts(place) == (1, 1, 3)
    assert numbered(place, 1, 2)[0].state == ACTIVE
    (again,) = run(place.store.read_deferred([message.row_id]))
    assert (again.raw, again.state, again.delivery_count) == (b"22", DEFERRED, 0)
    with pytest.raises(AssertionError):
        range_settlement.defer(place.queue, again, ACTOR, NOW, place.changes)


def test_deferred_message_is_completed(place: Place) -> None:
    place.send(b"1")
    (message,) = numbered(place, 1)
    range_settlement.defer(place.queue, message, ACTOR, NOW, place.changes)
    place.commit()
    (again,) = run(place.store.read_deferred([message.row_id]))
    range_settlement.complete_deferred(place.queue, again, ACTOR, NOW, place.changes)
    assert [logged.operation for logged in place.runs()] == [operation_log.COMPLETE]
    place.commit()
    assert counts(place) == (0, 0, 0)
    assert numbers_on_disk(place) == []


@pytest.mark.parametrize("is_deferred", [False, True])
def test_poison_is_a_dead_letter_with_its_reason(
    place: Place, is_deferred: bool
) -> None:
    place.send(b"1", b"2")
    (message,) = numbered(place, 1)
    if is_deferred:
        range_settlement.defer(place.queue, message, ACTOR, NOW, place.changes)
        place.commit()
        (message,) = run(place.store.read_deferred([message.row_id]))
    range_settlement.dead_letter(
        place.queue, message, "Poison", "nobody can read it", ACTOR, NOW, place.changes
    )
    place.commit()
    assert (place.queue.active_count, place.queue.deferred_count) == (1, 0)
    dead = place.dead_letters
    (found,) = run(place.store.read_active(dead.number, 0, 9, 1 << 20))
    assert (found.raw, found.annex.dead_letter_reason) == (b"1", "Poison")
    assert found.annex.dead_letter_description == "nobody can read it"
    assert found.annex.dead_letter_source == "orders"
    assert dead.active_count == 1
