"""Settlement: each row of the table in the module."""

from collections.abc import Callable

import pytest

from twinbus.broker import operation_log, settlement
from twinbus.broker.fragment import Fragment
from twinbus.broker.message import DEFERRED
from twinbus.broker.message_lock import MessageLock
from twinbus.errors import MessageLockLost, MessageSizeExceeded
from twinbus.limits import PROPERTIES_BYTES

from .world import ACTOR, NOW, Place, bodies, run

Settle = Callable[[Place, Fragment, MessageLock], None]


def complete(place: Place, fragment: Fragment, lock: MessageLock) -> None:
    settlement.complete(fragment, lock, ACTOR, place.now, place.changes)


def abandon(place: Place, fragment: Fragment, lock: MessageLock) -> None:
    settlement.abandon(fragment, lock, {"a": b"\x41"}, ACTOR, place.now, place.changes)


def release(place: Place, fragment: Fragment, lock: MessageLock) -> None:
    settlement.release(fragment, lock, ACTOR, place.now, place.changes)


def defer(place: Place, fragment: Fragment, lock: MessageLock) -> None:
    settlement.defer(fragment, lock, {"a": b"\x41"}, ACTOR, place.now, place.changes)


def dead_letter(place: Place, fragment: Fragment, lock: MessageLock) -> None:
    settlement.dead_letter(
        fragment,
        lock,
        "why",
        "because",
        {"a": b"\x41"},
        ACTOR,
        place.now,
        place.changes,
    )


ALL = (complete, abandon, release, defer, dead_letter)


def received(place: Place) -> MessageLock:
    place.send(b"a")
    [lock] = place.lock()
    return lock


def deferred(place: Place) -> MessageLock:
    """The lock of a message that was deferred and received again."""
    lock = received(place)
    settlement.defer(place.queue, lock, None, ACTOR, NOW, place.changes)
    place.commit()
    [message] = run(place.store.read_deferred([lock.message.row_id]))
    return place.queue.lock_deferred(message, NOW, bytes(5))


@pytest.mark.parametrize("settle", ALL)
def test_lock_ends_with_the_settlement_and_no_second_one_follows(
    place: Place, settle: Settle
) -> None:
    lock = received(place)
    settle(place, place.queue, lock)
    assert place.queue.locks == {}
    for again in ALL:
        with pytest.raises(MessageLockLost, match="'orders'"):
            again(place, place.queue, lock)


@pytest.mark.parametrize("settle", ALL)
def test_lock_that_ran_out_settles_nothing(place: Place, settle: Settle) -> None:
    lock = received(place)
    place.now = lock.locked_until
    with pytest.raises(MessageLockLost):
        settle(place, place.queue, lock)
    assert place.changes.is_empty()


@pytest.mark.parametrize(
    ("settle", "operation"),
    [
        (complete, operation_log.COMPLETE),
        (abandon, operation_log.ABANDON),
        (release, operation_log.RELEASE),
        (defer, operation_log.DEFER),
        (dead_letter, operation_log.DEAD_LETTER),
    ],
)
def test_settlement_is_logged(place: Place, settle: Settle, operation: int) -> None:
    settle(place, place.queue, received(place))
    moved = [operation_log.ARRIVE] if settle is dead_letter else []
    assert [run.operation for run in place.runs()] == [
        operation_log.LOCK,
        operation,
        *moved,
    ]


def test_completed_message_is_gone(place: Place) -> None:
    complete(place, place.queue, received(place))
    place.commit()
    assert (place.queue.active_count, place.queue.size_bytes) == (0, 0)
    assert run(place.store.browse(place.queue.number, 0, 9, 9)) == []


def test_abandoned_message_returns_with_a_higher_count(place: Place) -> None:
    abandon(place, place.queue, received(place))
    assert not place.queue.window.has_ready()
    place.commit()
    [message] = place.queue.window.ready_messages()
    assert message.delivery_count == 1
    assert message.annex is not None and message.annex.modified == {"a": b"\x41"}


def test_modified_properties_do_not_add_up_without_end(place: Place) -> None:
    """And what is refused for it can still be settled otherwise."""
    lock = received(place)
    half = bytes(PROPERTIES_BYTES // 2 - 1)
    settlement.abandon(place.queue, lock, {"a": half}, 1, NOW, place.changes)
    place.commit()
    [lock] = place.lock()
    for settle in (settlement.abandon, settlement.defer):
        with pytest.raises(MessageSizeExceeded, match="Set fewer"):
            settle(place.queue, lock, {"b": half, "c": b"1"}, 1, NOW, place.changes)
    settlement.defer(place.queue, lock, {"b": half}, 1, NOW, place.changes)
    assert place.queue.deferred_count == 1


def test_modified_properties_add_up(place: Place) -> None:
    lock = received(place)
    place.queue.settings.max_delivery_count = 9
    for modified in ({"a": b"\x41", "b": b"\x41"}, {"b": b"\x42"}, None, {}):
        settlement.abandon(place.queue, lock, modified, 1, NOW, place.changes)
        place.commit()
        [lock] = place.lock()
    assert lock.message.annex is not None
    assert lock.message.annex.modified == {"a": b"\x41", "b": b"\x42"}


def test_message_abandoned_at_the_limit_is_dead_lettered(place: Place) -> None:
    lock = received(place)
    for _ in range(2):
        abandon(place, place.queue, lock)
        place.commit()
        [lock] = place.lock()
    abandon(place, place.queue, lock)
    place.commit()
    [message] = place.dead_letters.window.ready_messages()
    assert message.delivery_count == 3
    assert message.annex is not None
    assert message.annex.dead_letter_reason == "MaxDeliveryCountExceeded"
    assert message.annex.dead_letter_description == (
        "Message could not be consumed after 3 delivery attempts."
    )


def test_released_message_returns_as_it_was(place: Place) -> None:
    release(place, place.queue, received(place))
    place.commit()
    [message] = place.queue.window.ready_messages()
    assert message.delivery_count == 0


def test_deferred_message_waits_to_be_asked_for(place: Place) -> None:
    lock = received(place)
    defer(place, place.queue, lock)
    place.commit()
    queue = place.queue
    assert (queue.active_count, queue.deferred_count, queue.size_bytes) == (0, 1, 1)
    assert not queue.window.has_ready()
    [message] = run(place.store.read_deferred([lock.message.row_id]))
    assert message.annex.modified == {"a": b"\x41"}


@pytest.mark.parametrize(
    ("settle", "delivery_count"), [(abandon, 1), (release, 0), (defer, 0)]
)
def test_deferred_message_that_is_given_back_stays_deferred(
    place: Place, settle: Settle, delivery_count: int
) -> None:
    lock = deferred(place)
    settle(place, place.queue, lock)
    place.commit()
    assert (place.queue.active_count, place.queue.deferred_count) == (0, 1)
    assert not place.queue.window.has_ready()
    [message] = run(place.store.read_deferred([lock.message.row_id]))
    assert (message.state, message.delivery_count) == (DEFERRED, delivery_count)


@pytest.mark.parametrize(("settle", "dead_count"), [(complete, 0), (dead_letter, 1)])
def test_deferred_message_leaves_like_any_other(
    place: Place, settle: Settle, dead_count: int
) -> None:
    settle(place, place.queue, deferred(place))
    place.commit()
    queue = place.queue
    assert (queue.active_count, queue.deferred_count, queue.size_bytes) == (0, 0, 0)
    assert place.dead_letters.active_count == dead_count


def test_dead_lettered_message_goes_on_with_its_reason(place: Place) -> None:
    dead_letter(place, place.queue, received(place))
    place.commit()
    [message] = place.dead_letters.window.ready_messages()
    annex = message.annex
    assert annex is not None
    assert (annex.dead_letter_reason, annex.dead_letter_description) == (
        "why",
        "because",
    )
    assert (annex.dead_letter_source, annex.enqueued_sequence_number) == ("orders", 1)
    assert annex.modified == {"a": b"\x41"}


def test_dead_letter_that_is_dead_lettered_again_gets_the_new_reason(
    place: Place,
) -> None:
    dead_letter(place, place.queue, received(place))
    place.commit()
    dead = place.dead_letters
    [lock] = place.lock(fragment=dead)
    settlement.dead_letter(dead, lock, "again", None, None, ACTOR, NOW, place.changes)
    place.commit()
    [message] = dead.window.ready_messages()
    assert message.annex is not None
    assert message.annex.dead_letter_reason == "again"
    assert message.annex.dead_letter_source == "orders"
    assert bodies(run(place.store.browse(dead.number, 0, 9, 9))) == [b"a"]


def test_dead_letters_are_never_given_up(place: Place) -> None:
    dead_letter(place, place.queue, received(place))
    place.commit()
    for _ in range(20):
        [lock] = place.lock(fragment=place.dead_letters)
        abandon(place, place.dead_letters, lock)
        place.commit()
    assert place.dead_letters.active_count == 1
