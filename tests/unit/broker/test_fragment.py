"""The aggregate: numbers, counters, locks, and their state after a failed commit."""

import pytest

from twinbus.broker.changes import FragmentRecord
from twinbus.broker.fragment import Fragment
from twinbus.broker.message import LEAVING, LOCKED, Message
from twinbus.broker.message_lock import token_fragment, token_sequence
from twinbus.broker.size_quota import SizeQuota
from twinbus.errors import MessageLockLost, MessagingEntityNotFound, QuotaExceeded

from .world import ACTOR, GENERATION, NOW, Place, bodies


def test_numbers_rise_in_the_order_of_sending(place: Place) -> None:
    place.send(b"a", b"b")
    place.send(b"c")
    ready = place.queue.window.ready_messages()
    assert [place.queue.sequence_number(message) for message in ready] == [1, 2, 3]
    assert [place.queue.row_id(number) for number in (1, 2, 3)] == [
        message.row_id for message in ready
    ]


def test_numbers_of_a_partitioned_entity_carry_the_fragment() -> None:
    place = Place()
    record = FragmentRecord(number=3, generation=GENERATION, index=5, sub_queue=0)
    fragment = Fragment(record, place.settings, 1, place.table, SizeQuota())
    message = Message(b"", 0, 0, 0)
    fragment.enqueue(message, ACTOR, NOW, place.changes)
    assert fragment.sequence_number(message) == 5 << 48 | 1
    assert fragment.row_id(5 << 48 | 1) == message.row_id


def test_enqueued_time_never_goes_back(place: Place) -> None:
    place.send(b"a", ttl_ms=10)
    place.now -= 5_000
    place.send(b"b", ttl_ms=10)
    assert [
        (message.enqueued_at, message.expires_at)
        for message in place.queue.window.ready_messages()
    ] == [(NOW, NOW + 10)] * 2


@pytest.mark.parametrize(
    ("default", "own", "effective"),
    [(0, 0, 0), (0, 7, 7), (5, 0, 5), (5, 7, 5), (5, 3, 3)],
)
def test_shorter_time_to_live_counts(default: int, own: int, effective: int) -> None:
    place = Place(default_ttl_ms=default)
    place.send(b"a", ttl_ms=own)
    [message] = place.queue.window.ready_messages()
    assert message.ttl_ms == effective
    assert message.expires_at == (NOW + effective if effective else 0)


def test_quota_counts_what_is_there_and_what_is_to_come() -> None:
    place = Place(max_size_bytes=10)
    place.send(b"1234")
    place.queue.check_quota(6)
    with pytest.raises(QuotaExceeded, match="11 would be needed and 10 is the limit"):
        place.queue.check_quota(7)


# --- locks ----------------------------------------------------------------------


def test_locked_messages_leave_the_window_with_a_token(place: Place) -> None:
    place.send(b"a", b"b", b"c")
    locks = place.lock(2)
    assert bodies([lock.message for lock in locks]) == [b"a", b"b"]
    for number, lock in enumerate(locks, start=1):
        assert lock.message.place == LOCKED
        assert lock.locked_until == NOW + place.settings.lock_duration_ms
        assert len(lock.token) == 16
        assert token_fragment(lock.token) == place.queue.index
        assert token_sequence(lock.token) == number
    assert len({lock.token for lock in locks}) == 2
    assert bodies(place.queue.window.ready_messages()) == [b"c"]


def test_no_more_is_locked_than_there_is(place: Place) -> None:
    place.send(b"a")
    assert len(place.lock(5)) == 1
    assert place.lock(5) == []


def test_lock_is_found_by_its_token_while_it_lasts(place: Place) -> None:
    place.send(b"a")
    [lock] = place.lock()
    assert place.queue.lock_of(lock.token, NOW) is lock
    forged = lock.token[:-1] + b"\xff"
    for token, now in (
        (forged, NOW),
        (lock.token, lock.locked_until),
        (bytes(16), NOW),
    ):
        with pytest.raises(MessageLockLost):
            place.queue.lock_of(token, now)


def test_renewed_lock_lasts_a_full_duration_from_now(place: Place) -> None:
    place.send(b"a", b"b")
    first, second = place.lock(2)
    assert place.queue.renew(first, NOW + 5) == NOW + 5 + 60_000
    assert list(place.queue.locks.values()) == [second, first]
    assert place.queue.ended_locks(NOW + 60_000) == [second]


# --- commits and failures -------------------------------------------------------


def test_failed_commit_leaves_what_was_durable(place: Place) -> None:
    place.send(b"a", b"b")
    [lock] = place.lock()
    place.queue.window.open_wide()
    place.queue.enqueue(Message(b"c", 0, 0, 0), ACTOR, NOW, place.changes)
    place.fail()
    assert not place.queue.holds(lock, NOW)
    assert (place.queue.active_count, place.queue.next_sequence) == (2, 3)
    assert place.queue.window.is_wide()
    assert place.queue.window.wants_refill()
    place.refill()
    assert bodies(place.queue.window.ready_messages()) == [b"a", b"b"]


def test_removed_messages_are_counted_out_at_once(place: Place) -> None:
    place.send(b"abc")
    [message] = place.queue.take(1, NOW, place.changes)
    place.queue.forget(message, place.changes)
    assert message.place == LEAVING
    assert (place.queue.active_count, place.queue.size_bytes) == (0, 0)


def test_dead_letters_lie_in_the_same_commit(place: Place) -> None:
    place.send(b"a")
    [message] = place.queue.take(1, NOW, place.changes)
    place.queue.move_to_dead_letters(message, "why", None, NOW, place.changes)
    changes = place.commit()
    assert changes.active_removed == [place.queue.row_id(1)]
    assert bodies(changes.active_added) == [b"a"]
    assert len(changes.records) == 2


# --- dropped --------------------------------------------------------------------


def test_nothing_is_left_of_a_dropped_fragment(place: Place) -> None:
    place.send(b"a", b"b", ttl_ms=5)
    [lock] = place.lock()
    place.queue.enqueue(Message(b"c", 0, 0, 0), ACTOR, NOW, place.changes)
    place.queue.drop()
    place.commit()
    assert place.queue.window.ready_messages() == []
    assert (len(place.queue.locks), len(place.queue.expiries)) == (0, 0)
    assert not place.queue.holds(lock, NOW)
    with pytest.raises(MessagingEntityNotFound, match="'orders'"):
        place.queue.check_quota(1)
