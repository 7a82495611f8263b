"""Holding a session: its window, its locks, and what happens to them at its end."""

import pytest

from twinbus.broker import expiry, session_lock, settlement
from twinbus.broker.dispatch import Dispatch
from twinbus.broker.held_session import HeldSession
from twinbus.broker.message import Message
from twinbus.broker.operation_log import LOCK_EXPIRED
from twinbus.errors import SessionLockLost
from twinbus.limits import LOCK_DURATION_MS

from .world import ACTOR, NOW, Client, Place, run


@pytest.fixture
def place() -> Place:
    return Place(max_delivery_count=2, requires_session=True)


def send(place: Place, session_id: str, *bodies: bytes, ttl_ms: int = 0) -> None:
    for body in bodies:
        message = Message(body, 0, ttl_ms, 0)
        message.session_id = session_id
        place.queue.enqueue(message, ACTOR, place.now, place.changes)
    place.commit()


def held(
    place: Place, session_id: str, wanted: int, *, peek_lock: bool = True
) -> tuple[HeldSession, Client]:
    """A client that holds a session and has got what it wanted."""
    session = session_lock.hold(place.queue, session_id, place.now)
    client = Client(wanted, peek_lock=peek_lock)
    client.session = session
    session.receiver = client
    dispatch = Dispatch(place.queue, session, bytes)
    dispatch.join(client)
    dispatch.offer_capacity(client)
    window = session.window
    read = run(
        place.store.read_session(
            place.queue.number, session_id, window.loaded_through, 100, 1 << 20
        )
    )
    place.queue.refill(read, window.tail, session)
    dispatch.deliver(place.now, place.changes)
    return session, client


def test_session_lasts_for_the_lock_duration(place: Place) -> None:
    session, _ = held(place, "a", 0)
    assert session.locked_until == NOW + LOCK_DURATION_MS
    assert session_lock.held(place.queue, "a", NOW) is session
    with pytest.raises(SessionLockLost, match="'a'"):
        session_lock.held(place.queue, "a", session.locked_until)
    with pytest.raises(SessionLockLost, match="'b'"):
        session_lock.held(place.queue, "b", NOW)


def test_holder_gets_the_messages_of_its_session(place: Place) -> None:
    send(place, "a", b"1")
    send(place, "b", b"2")
    send(place, "a", b"3")
    _, client = held(place, "a", 5)
    assert client.got == [b"1", b"3"]


def test_closing_gives_messages_back_uncounted(place: Place) -> None:
    send(place, "a", b"1", b"2")
    session, _ = held(place, "a", 2)
    session_lock.close(place.queue, session, place.changes)
    assert place.queue.locks == {}
    place.commit()
    assert place.queue.the_sessions().take_free() == "a"
    _, client = held(place, "a", 2)
    assert client.got == [b"1", b"2"]
    assert [lock.message.delivery_count for lock in place.queue.locks.values()] == [
        0,
        0,
    ]


def test_closing_twice_or_after_the_loss_does_nothing(place: Place) -> None:
    session, _ = held(place, "a", 0)
    session_lock.close(place.queue, session, place.changes)
    session_lock.close(place.queue, session, place.changes)
    assert len(place.commit().freed[0]) == 1
    session_lock.close(place.queue, session, place.changes)
    assert place.changes.is_empty()


def test_loss_counts_deliveries_and_tells_the_holder(place: Place) -> None:
    send(place, "a", b"1", b"2", b"3")
    session, client = held(place, "a", 2)
    place.commit()
    place.now = session.locked_until
    expiry.let_time_pass(place.queue, place.now, place.changes)
    assert client.lost_count == 1
    assert [run.operation for run in place.runs()] == [LOCK_EXPIRED]
    place.commit()
    held(place, "a", 3)
    locks = list(place.queue.locks.values())
    assert [lock.message.delivery_count for lock in locks] == [1, 1, 0]


def test_loss_at_the_limit_dead_letters(place: Place) -> None:
    send(place, "a", b"1")
    for _ in range(2):
        session, _ = held(place, "a", 1)
        place.now = session.locked_until
        expiry.let_time_pass(place.queue, place.now, place.changes)
        place.commit()
    assert place.queue.active_count == 0
    [letter] = place.dead_letters.window.ready_messages()
    assert (letter.raw, letter.session_id) == (b"1", None)


def test_message_locks_live_as_long_as_the_session(place: Place) -> None:
    send(place, "a", b"1")
    session, _ = held(place, "a", 1)
    [lock] = place.queue.locks.values()
    assert lock.ends_at() == session.locked_until
    later = session.locked_until
    session_lock.renew(place.queue, session, NOW + 1_000)
    assert place.queue.holds(lock, later)
    assert place.queue.renew(lock, later) == session.locked_until
    with pytest.raises(SessionLockLost):
        place.queue.lock_of(lock.token, session.locked_until)


def test_settling_after_the_session_ended_says_so(place: Place) -> None:
    send(place, "a", b"1")
    session, _ = held(place, "a", 1)
    [lock] = place.queue.locks.values()
    session_lock.close(place.queue, session, place.changes)
    with pytest.raises(SessionLockLost):
        settlement.complete(place.queue, lock, ACTOR, NOW, place.changes)


def test_message_that_waits_in_a_held_session_expires(place: Place) -> None:
    send(place, "a", b"1", b"2", ttl_ms=100)
    held(place, "a", 1)
    expiry.let_time_pass(place.queue, NOW + 100, place.changes)
    place.commit()
    assert place.queue.active_count == 1


def test_message_of_a_session_that_nobody_holds_is_the_disks(place: Place) -> None:
    send(place, "a", b"1", ttl_ms=100)
    [message] = run(place.store.read_session(place.queue.number, "a", 0, 9, 999))
    assert not place.queue.is_in_memory(message)
    assert expiry.expire_unloaded(place.queue, message, NOW + 100, place.changes)
    place.commit()
    assert place.queue.active_count == 0


def test_message_of_a_held_session_is_left_to_memory(place: Place) -> None:
    send(place, "a", b"1", ttl_ms=100)
    [message] = run(place.store.read_session(place.queue.number, "a", 0, 9, 999))
    session, _ = held(place, "a", 1)
    assert not expiry.expire_unloaded(place.queue, message, NOW + 100, place.changes)
    session_lock.close(place.queue, session, place.changes)
    # Until that is durable nobody else may touch what its holder had.
    assert not expiry.expire_unloaded(place.queue, message, NOW + 100, place.changes)
    place.commit()
    assert expiry.expire_unloaded(place.queue, message, NOW + 100, place.changes)


def test_failed_commit_forgets_what_was_held(place: Place) -> None:
    send(place, "a", b"1")
    held(place, "a", 1)
    place.fail()
    assert place.queue.the_sessions().held == {}
    assert place.queue.locks == {}
    assert place.queue.the_sessions().wants_more()


def test_nothing_is_delivered_while_what_comes_first_is_coming_back(
    place: Place,
) -> None:
    send(place, "a", b"1", b"2")
    session, client = held(place, "a", 1)
    dispatch = Dispatch(place.queue, session, bytes)
    dispatch.join(client)
    [lock] = place.queue.locks.values()
    settlement.abandon(place.queue, lock, None, ACTOR, NOW, place.changes)
    client.wanted = 2
    dispatch.offer_capacity(client)
    dispatch.deliver(NOW, place.changes)
    dispatch.served()
    assert (client.got, client.served_count) == ([b"1"], 0)
    place.commit()
    dispatch.deliver(NOW, place.changes)
    dispatch.served()
    assert (client.got, client.served_count) == ([b"1", b"1", b"2"], 1)


def test_who_receives_and_deletes_keeps_the_session(place: Place) -> None:
    session, client = held(place, "a", 0, peek_lock=False)
    ends_at = session.locked_until
    expiry.let_time_pass(place.queue, ends_at, place.changes)
    assert client.lost_count == 0
    assert session.locked_until == ends_at + LOCK_DURATION_MS
    place.commit()
    # It is told of what came between the end of its lock and this.
    assert place.queue.the_sessions().take_stirred() == [session]
