"""Ends of locks and times to live, in memory and on disk."""

import pytest

from twinbus.broker import expiry, settlement
from twinbus.broker.operation_log import ARRIVE, EXPIRE, LOCK_EXPIRED
from twinbus.limits import CHANGED_BYTES

from .world import NOW, Place, bodies, run


def test_lock_that_ended_counts_as_a_delivery(place: Place) -> None:
    place.send(b"a")
    [lock] = place.lock()
    expiry.let_time_pass(place.queue, lock.locked_until - 1, place.changes)
    assert place.changes.is_empty()
    expiry.let_time_pass(place.queue, lock.locked_until, place.changes)
    assert [run.operation for run in place.runs()][-1] == LOCK_EXPIRED
    assert place.queue.window.ready_messages() == []
    place.commit()
    [message] = place.queue.window.ready_messages()
    assert message.delivery_count == 1


def test_locks_of_more_bytes_than_a_commit_counts_end_with_the_next(
    place: Place,
) -> None:
    place.send(*[bytes(CHANGED_BYTES // 2)] * 3)
    locks = place.lock()
    while len(locks) < 3:
        place.refill()
        locks += place.lock()
    assert not expiry.let_time_pass(place.queue, locks[0].locked_until, place.changes)
    assert list(place.queue.locks.values()) == locks[2:]
    assert not place.queue.holds(locks[2], locks[0].locked_until)
    place.commit()
    assert expiry.let_time_pass(place.queue, locks[0].locked_until, place.changes)
    assert not place.queue.locks


def test_lock_that_ended_the_last_time_dead_letters(place: Place) -> None:
    place.send(b"a")
    for _ in range(3):
        [lock] = place.lock()
        place.now = lock.locked_until
        expiry.let_time_pass(place.queue, place.now, place.changes)
        place.commit()
    assert (place.queue.active_count, place.dead_letters.active_count) == (0, 1)


def test_shorter_locks_end_before_longer_ones_that_are_older(place: Place) -> None:
    place.send(b"long", b"short", b"renewed")
    long, renewed = place.lock(2)
    place.settings.lock_duration_ms = 5_000
    [short] = place.lock()
    place.queue.renew(renewed, NOW)
    expiry.let_time_pass(place.queue, NOW + 5_000, place.changes)
    assert list(place.queue.locks.values()) == [long]
    assert not place.queue.holds(short, NOW)


def test_locks_that_end_at_one_instant_end_in_the_order_of_messages(
    place: Place,
) -> None:
    place.send(b"a", b"b")
    first, second = place.lock(2)
    place.queue.renew(first, NOW)
    assert place.queue.ended_locks(first.locked_until) == [first, second]


def test_locks_end_in_order_after_all_of_them_are_gone(place: Place) -> None:
    place.send(b"a")
    [lock] = place.lock()
    place.settings.lock_duration_ms = 5_000
    place.queue.renew(lock, NOW)
    settlement.complete(place.queue, lock, 1, NOW, place.changes)
    assert place.queue.ended_locks(NOW + 100_000) == []


def test_clock_that_was_set_back_delays_no_later_lock(place: Place) -> None:
    place.send(b"a", b"b")
    place.lock()
    place.now -= 3_600_000
    [second] = place.lock()
    expiry.let_time_pass(place.queue, second.locked_until, place.changes)
    assert len(place.queue.locks) == 1


@pytest.mark.parametrize("dead_letter", [False, True])
def test_message_outlives_its_time(dead_letter: bool) -> None:
    place = Place(dead_letter_on_expiration=dead_letter)
    place.send(b"a", ttl_ms=10)
    assert expiry.has_timers(place.queue)
    expiry.let_time_pass(place.queue, NOW + 10, place.changes)
    assert [run.operation for run in place.runs()] == [EXPIRE] + [ARRIVE] * dead_letter
    place.commit()
    assert place.queue.active_count == 0
    assert place.dead_letters.active_count == dead_letter
    assert not expiry.has_timers(place.queue)
    for message in place.dead_letters.window.ready_messages():
        assert message.annex is not None
        assert message.annex.dead_letter_reason == "TTLExpiredException"


def test_locked_message_does_not_expire_before_its_lock_ends(place: Place) -> None:
    place.send(b"a", ttl_ms=10)
    [lock] = place.lock()
    expiry.let_time_pass(place.queue, NOW + 20, place.changes)
    assert place.queue.active_count == 1
    expiry.let_time_pass(place.queue, lock.locked_until, place.changes)
    place.commit()
    expiry.let_time_pass(place.queue, lock.locked_until, place.changes)
    assert place.queue.active_count == 0


def test_message_that_came_back_expires_once(place: Place) -> None:
    place.send(b"a", b"b", ttl_ms=10)
    [lock] = place.lock()
    settlement.release(place.queue, lock, 1, NOW, place.changes)
    place.commit()
    expiry.let_time_pass(place.queue, NOW + 10, place.changes)
    assert place.queue.active_count == 0
    assert sorted(place.changes.active_removed) == [
        place.queue.row_id(1),
        place.queue.row_id(2),
    ]


def test_time_means_nothing_to_dead_letters() -> None:
    place = Place(default_ttl_ms=10)
    place.send(b"a")
    [lock] = place.lock()
    settlement.dead_letter(place.queue, lock, None, None, None, 1, NOW, place.changes)
    place.commit()
    expiry.let_time_pass(place.dead_letters, NOW + 10_000_000, place.changes)
    assert bodies(place.dead_letters.window.ready_messages()) == [b"a"]


def test_message_that_was_read_again_expires_in_memory(place: Place) -> None:
    place.send(b"a", ttl_ms=10)
    place.fail()
    place.refill()
    expiry.let_time_pass(place.queue, NOW + 10, place.changes)
    assert place.queue.active_count == 0


# --- on disk --------------------------------------------------------------------


def test_only_messages_beyond_the_window_expire_from_disk(place: Place) -> None:
    place.send(*[b"%02d" % number for number in range(18)], ttl_ms=10)
    found = run(place.store.read_active(place.queue.number, 0, 100, 1 << 30))
    expired = [
        message.raw
        for message in found
        if expiry.expire_unloaded(place.queue, message, NOW + 10, place.changes)
    ]
    assert expired == [b"16", b"17"]
    assert place.queue.active_count == 16


def test_messages_on_disk_whose_time_has_not_come_stay(place: Place) -> None:
    place.send(*[b"%02d" % number for number in range(18)], ttl_ms=10)
    place.send(b"for ever")
    found = run(place.store.read_active(place.queue.number, 16, 100, 1 << 30))
    for message, now in ((found[0], NOW + 9), (found[2], NOW + 99)):
        assert not expiry.expire_unloaded(place.queue, message, now, place.changes)
    assert place.changes.is_empty()
