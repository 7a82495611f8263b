"""Scheduled messages: counted, cancelled, activated under a new number."""

from twinbus.broker import schedule
from twinbus.broker.message import SCHEDULED, Annex, Message
from twinbus.broker.operation_log import ACTIVATE, ARRIVE, CANCEL, THE_BUS
from twinbus.broker.operation_log import SCHEDULE as SCHEDULED_BY_SOMEBODY

from .world import ACTOR, NOW, Place, run


def scheduled(place: Place, ttl_ms: int = 0) -> Message:
    """A scheduled message as the store has it."""
    message = Message(b"later", 3, ttl_ms, NOW + 100)
    schedule.schedule(place.queue, message, ACTOR, NOW, place.changes)
    assert [run.operation for run in place.runs()] == [SCHEDULED_BY_SOMEBODY]
    place.commit()
    [found] = run(place.store.read_scheduled([message.row_id]))
    assert isinstance(found, Message)
    return found


def test_scheduled_message_is_counted_apart_and_not_ready(place: Place) -> None:
    found = scheduled(place)
    queue = place.queue
    assert (queue.active_count, queue.scheduled_count, queue.size_bytes) == (0, 1, 5)
    assert (found.state, found.enqueued_at) == (SCHEDULED, NOW)
    assert not queue.window.has_ready()


def test_activated_message_is_enqueued_like_a_new_one(place: Place) -> None:
    found = scheduled(place, ttl_ms=50)
    found.annex = Annex(modified={"a": b"\x41"})
    schedule.activate(place.queue, found, NOW + 120, place.changes)
    assert [(run.operation, run.actor) for run in place.runs()] == [
        (ACTIVATE, THE_BUS),
        (ARRIVE, THE_BUS),
    ]
    place.commit()
    queue = place.queue
    assert (queue.active_count, queue.scheduled_count, queue.size_bytes) == (1, 0, 5)
    [message] = queue.window.ready_messages()
    assert queue.sequence_number(message) == 2
    assert (message.enqueued_at, message.expires_at) == (NOW + 120, NOW + 170)
    assert (message.scheduled_at, message.annex) == (NOW + 100, found.annex)
    assert run(place.store.read_scheduled([found.row_id])) == []


def test_cancelled_message_is_gone(place: Place) -> None:
    found = scheduled(place)
    schedule.cancel(place.queue, found, ACTOR, NOW, place.changes)
    assert [(run.operation, run.actor) for run in place.runs()] == [(CANCEL, ACTOR)]
    place.commit()
    assert (place.queue.scheduled_count, place.queue.size_bytes) == (0, 0)
    assert run(place.store.next_scheduled_at()) == 0
