"""A reader has a fragment for itself, and the effect on other clients."""

import pytest

from twinbus.broker import expiry, reader_lease, session_lock, settlement
from twinbus.broker.changes import ChangeSet, ReaderLease
from twinbus.broker.dispatch import Dispatch
from twinbus.broker.fragment import Fragment
from twinbus.broker.message import DEFERRED, NOWHERE, Message
from twinbus.broker.operation_log import LOCK, REVOKE
from twinbus.broker.row_id import sequence_of
from twinbus.broker.transaction import Transaction, TransactionLimits
from twinbus.errors import (
    MessageLockLost,
    NotAllowed,
    ReaderLeaseHeld,
    ReaderLeaseLost,
    SessionLockLost,
)
from twinbus.limits import LOCK_DURATION_MS
from twinbus.links.outcomes import COMPLETE, Settlement
from twinbus.links.transactional_work import TransactionalSettlement

from .world import ACTOR, GENERATION, NOW, Client, Place, run

MINUTE = 60_000


def take(place: Place, reader: str = "spark") -> ReaderLease:
    return reader_lease.take(place.queue, reader, MINUTE, place.now, place.changes)


def taken(place: Place, reader: str = "spark") -> ReaderLease:
    lease = take(place, reader)
    place.commit()
    return lease


def plan(place: Place, lease: ReaderLease, first: int, through: int) -> ReaderLease:
    planned = reader_lease.note_plan(place.queue, lease, first, through, place.changes)
    place.commit()
    return planned


def stored(place: Place) -> ReaderLease:
    (lease,) = run(place.store.reader_leases())
    assert isinstance(lease, ReaderLease)
    return lease


def let_time_pass(place: Place, ms: int) -> None:
    place.now += ms
    expiry.let_time_pass(place.queue, place.now, place.changes)


def sweep(place: Place) -> list[int]:
    """What expires on disk, as housekeeping finds it; the numbers of it."""
    found = run(place.store.read_active(place.queue.number, 0, 100, 1 << 30))
    gone = [
        sequence_of(message.row_id)
        for message in found
        if expiry.expire_unloaded(place.queue, message, place.now, place.changes)
    ]
    place.commit()
    return gone


def waiting(place: Place, wanted: int = 10, *, peek_lock: bool = True) -> Dispatch:
    """A receiver that wants messages."""
    dispatch = Dispatch(place.queue, None, bytes)
    client = Client(wanted, peek_lock=peek_lock)
    dispatch.join(client)
    dispatch.offer_capacity(client)
    return dispatch


def delivered(place: Place, dispatch: Dispatch) -> list[bytes]:
    """What the receiver has after it was served."""
    dispatch.deliver(place.now, place.changes)
    (client,) = dispatch._receivers
    assert isinstance(client, Client)
    return client.got


# --- who has it -------------------------------------------------------------------


def test_every_grant_raises_the_epoch(place: Place) -> None:
    first = taken(place)
    assert (first.epoch, first.expires_at) == (NOW, NOW + MINUTE)
    assert taken(place).epoch == NOW + 1
    with pytest.raises(ReaderLeaseLost):
        reader_lease.held(place.queue, "spark", NOW, NOW)
    assert reader_lease.held(place.queue, "spark", NOW + 1, NOW).epoch == NOW + 1


def test_another_reader_waits_until_it_has_ended(place: Place) -> None:
    taken(place)
    with pytest.raises(ReaderLeaseHeld, match="'spark' for 60 more seconds"):
        take(place, "other")
    place.now += MINUTE
    assert taken(place, "other").epoch == NOW + 1


def test_it_is_held_by_its_reader_until_its_end(place: Place) -> None:
    with pytest.raises(ReaderLeaseLost):
        reader_lease.held(place.queue, "spark", NOW, NOW)
    taken(place)
    reader_lease.held(place.queue, "spark", NOW, NOW + MINUTE - 1)
    for reader, epoch, now in (
        ("spark", NOW, NOW + MINUTE),
        ("spark", NOW + 1, NOW),
        ("other", NOW, NOW),
    ):
        with pytest.raises(ReaderLeaseLost):
            reader_lease.held(place.queue, reader, epoch, now)


def test_renewal_lasts_a_whole_duration(place: Place) -> None:
    lease = taken(place)
    place.now += 40_000
    reader_lease.renew(place.queue, lease, 30_000, place.now, place.changes)
    place.commit()
    assert stored(place).expires_at == NOW + 70_000
    assert stored(place).epoch == NOW
    let_time_pass(place, 29_999)
    held = reader_lease.held(place.queue, "spark", NOW, place.now)
    assert held.duration_ms == 30_000


def test_no_epoch_comes_twice_after_it_was_given_back(place: Place) -> None:
    lease = taken(place)
    reader_lease.give_back(place.queue, lease, place.changes)
    place.commit()
    assert place.queue.lease is None
    place.fail()
    assert taken(place, "other").epoch == NOW + 1


# --- locks ------------------------------------------------------------------------


def test_locks_are_revoked_and_no_delivery_counts(place: Place) -> None:
    place.send(b"1", b"2")
    first, _ = place.lock(2)
    take(place)
    assert [logged.operation for logged in place.runs()] == [LOCK, REVOKE]
    place.commit()
    with pytest.raises(MessageLockLost):
        settlement.complete(place.queue, first, ACTOR, NOW, place.changes)
    found = run(place.store.read_active(place.queue.number, 0, 9, 1 << 20))
    assert [(m.raw, m.delivery_count) for m in found] == [(b"1", 0), (b"2", 0)]


def test_lock_of_a_deferred_message_is_revoked(place: Place) -> None:
    place.send(b"1")
    (lock,) = place.lock()
    settlement.defer(place.queue, lock, None, ACTOR, NOW, place.changes)
    place.commit()
    (message,) = run(place.store.read_deferred([lock.message.row_id]))
    again = place.queue.lock_deferred(message, NOW, bytes(5))
    taken(place)
    assert place.queue.locks == {}
    assert (message.state, message.place) == (DEFERRED, NOWHERE)
    with pytest.raises(MessageLockLost):
        settlement.complete(place.queue, again, ACTOR, NOW, place.changes)
    let_time_pass(place, LOCK_DURATION_MS)
    assert (place.changes.deferred_changed, place.changes.active_changed) == ([], [])


def test_transaction_with_a_revoked_lock_can_only_be_rolled_back(place: Place) -> None:
    place.send(b"1")
    (lock,) = place.lock()
    transaction = Transaction(b"t", NOW, TransactionLimits())
    intended = Settlement(COMPLETE, None, None, None)
    work = TransactionalSettlement(place.queue, lock, intended, ACTOR)
    transaction.enlist_lock(lock, work)
    taken(place)
    with pytest.raises(MessageLockLost):
        transaction.check(NOW)
    transaction.roll_back()
    assert place.queue.active_count == 1
    # And the message can be locked again when the lease is over.
    let_time_pass(place, MINUTE)
    place.commit()
    place.refill()
    (again,) = place.lock()
    settlement.check_not_enlisted(place.queue, again)


def test_enlisted_lock_cannot_be_settled_before_it_is_revoked(place: Place) -> None:
    place.send(b"1")
    (lock,) = place.lock()
    lock.enlisted_in = Transaction(b"t", NOW, TransactionLimits())
    with pytest.raises(NotAllowed):
        settlement.complete(place.queue, lock, ACTOR, NOW, place.changes)
    taken(place)
    with pytest.raises(MessageLockLost):
        settlement.complete(place.queue, lock, ACTOR, NOW, place.changes)


# --- sessions ---------------------------------------------------------------------


def in_session(place: Place, session_id: str, *bodies: bytes) -> None:
    for body in bodies:
        message = Message(body, 0, 0, 0)
        message.session_id = session_id
        place.queue.enqueue(message, ACTOR, place.now, place.changes)
    place.commit()


def test_sessions_are_revoked_and_their_holders_told() -> None:
    place = Place(requires_session=True)
    in_session(place, "a", b"1", b"2")
    session = session_lock.hold(place.queue, "a", NOW)
    session.receiver = client = Client()
    messages = run(place.store.read_session(place.queue.number, "a", 0, 9, 1 << 20))
    place.queue.refill(messages, 2, session)
    (lock,) = place.queue.lock(1, ACTOR, NOW, bytes(5), place.changes, session)
    taken(place)
    assert client.lost_count == 1
    assert (place.queue.locks, place.queue.the_sessions().held) == ({}, {})
    with pytest.raises(SessionLockLost):
        settlement.complete(place.queue, lock, ACTOR, NOW, place.changes)
    found = run(place.store.read_session(place.queue.number, "a", 0, 9, 1 << 20))
    assert [(m.raw, m.delivery_count) for m in found] == [(b"1", 0), (b"2", 0)]


def test_holder_that_gave_its_session_up_is_not_told() -> None:
    place = Place(requires_session=True)
    session = session_lock.hold(place.queue, "a", NOW)
    session.receiver = client = Client()
    session_lock.close(place.queue, session, place.changes)
    taken(place)
    assert client.lost_count == 0


def test_messages_sent_to_sessions_wait_on_disk() -> None:
    place = Place(requires_session=True)
    taken(place)
    in_session(place, "a", b"1")
    assert place.queue.window.tail == 1
    assert place.queue.the_sessions().take_free() == "a"


# --- receivers --------------------------------------------------------------------


def test_receivers_get_nothing_until_its_end_is_durable(place: Place) -> None:
    place.send(b"1")
    lease = taken(place)
    dispatch = waiting(place)
    place.send(b"2")
    assert delivered(place, dispatch) == []
    assert not dispatch.wants_refill()
    reader_lease.give_back(place.queue, lease, place.changes)
    assert delivered(place, dispatch) == []
    assert not dispatch.wants_refill()
    place.commit()
    assert dispatch.wants_refill()
    place.refill()
    assert delivered(place, dispatch) == [b"1", b"2"]


def test_lease_that_runs_out_leaves_all_to_receivers(place: Place) -> None:
    place.send(b"1", b"2")
    dispatch = waiting(place, 1)
    assert delivered(place, dispatch) == [b"1"]
    taken(place)
    place.send(b"3")
    let_time_pass(place, MINUTE)
    assert stored(place).expires_at == NOW + MINUTE
    place.commit()
    assert (place.queue.lease, stored(place).expires_at) == (None, 0)
    place.refill()
    assert [m.raw for m in place.queue.window.ready_messages()] == [b"1", b"2", b"3"]
    assert not expiry.has_timers(place.queue)


def test_its_end_is_written_once(place: Place) -> None:
    taken(place)
    let_time_pass(place, MINUTE)
    let_time_pass(place, 1_000)
    assert len(place.changes.reader_leases) == 1


def test_clock_that_is_set_back_does_not_prolong_it(place: Place) -> None:
    taken(place)
    let_time_pass(place, -10 * MINUTE)
    place.commit()
    assert stored(place).expires_at == place.now + MINUTE
    let_time_pass(place, MINUTE)
    place.commit()
    assert place.queue.lease is None


def test_end_in_the_next_change_set_does_not_end_it_with_this_one(
    place: Place,
) -> None:
    place.send(b"1")
    taken(place)
    place.queue.enqueue(Message(b"2", 0, 0, 0), ACTOR, NOW, place.changes)
    under_way, place.changes = place.changes, ChangeSet()
    under_way.seal(place.epoch, 4, NOW)
    let_time_pass(place, MINUTE)
    run(place.store.commit(under_way))
    under_way.publish()
    assert place.queue.lease is not None
    place.batch = 4
    place.commit()
    assert place.queue.lease is None


def test_grant_while_the_end_of_the_last_one_is_committed_stays(place: Place) -> None:
    taken(place)
    let_time_pass(place, MINUTE)
    under_way, place.changes = place.changes, ChangeSet()
    under_way.seal(place.epoch, 3, NOW)
    lease = take(place, "other")
    run(place.store.commit(under_way))
    under_way.publish()
    assert place.queue.lease == lease
    place.batch = 3
    place.commit()
    assert (place.queue.lease, stored(place)) == (lease, lease)


def test_message_that_comes_back_is_in_memory_once(place: Place) -> None:
    """It was abandoned before the grant, and is made durable after the end."""
    place.send(b"1")
    (lock,) = place.lock()
    settlement.abandon(place.queue, lock, None, ACTOR, NOW, place.changes)
    lease = take(place)
    reader_lease.give_back(place.queue, lease, place.changes)
    place.commit()
    assert place.queue.window.ready_count() == 0
    place.refill()
    (again,) = place.queue.window.ready_messages()
    assert again.delivery_count == 1


def test_message_on_its_way_back_at_the_grant_is_in_memory_once(place: Place) -> None:
    """The commit of its return is under way when the lease is granted and ends."""
    place.send(b"1")
    (lock,) = place.lock()
    settlement.abandon(place.queue, lock, None, ACTOR, NOW, place.changes)
    under_way, place.changes = place.changes, ChangeSet()
    under_way.seal(place.epoch, 3, NOW)
    lease = take(place)
    reader_lease.give_back(place.queue, lease, place.changes)
    run(place.store.commit(under_way))
    under_way.publish()
    place.batch = 3
    place.commit()
    place.refill()
    assert len(place.queue.window.ready_messages()) == 1


def test_messages_sent_as_it_ends_are_read_once(place: Place) -> None:
    place.send(b"1")
    lease = taken(place)
    place.queue.enqueue(Message(b"2", 0, 0, 0), ACTOR, NOW, place.changes)
    reader_lease.give_back(place.queue, lease, place.changes)
    place.commit()
    place.refill()
    assert [m.raw for m in place.queue.window.ready_messages()] == [b"1", b"2"]
    place.send(b"3")
    assert [m.raw for m in place.queue.window.ready_messages()][2:] == [b"3"]


def test_promises_of_before_are_kept(place: Place) -> None:
    """Receive-and-delete: what is being removed for a receiver is no longer there."""
    place.send(b"1", b"2")
    dispatch = waiting(place, 1, peek_lock=False)
    dispatch.deliver(NOW, place.changes)
    taken(place)
    ((receiver, messages),) = dispatch.take_promises()
    assert [message.raw for message in messages] == [b"1"]
    assert delivered(place, dispatch) == []
    found = run(place.store.outlines(place.queue.number, 0, 99, 9))
    assert [sequence_of(row_id) for row_id in found.row_ids] == [2]
    assert receiver.promised_count == 1


# --- what was planned -------------------------------------------------------------


def test_plan_goes_on_where_it_ended(place: Place) -> None:
    lease = plan(place, taken(place), 5, 10)
    assert (lease.planned_from, lease.planned_through) == (5, 10)
    lease = plan(place, lease, 11, 20)
    assert (lease.planned_from, lease.planned_through) == (5, 20)
    lease = plan(place, lease, 11, 15)
    assert (lease.planned_from, lease.planned_through) == (5, 15)
    assert stored(place) == lease


def test_reader_that_begins_elsewhere_has_planned_only_that(place: Place) -> None:
    lease = plan(place, taken(place), 5, 10)
    lease = plan(place, lease, 12, 14)
    assert (lease.planned_from, lease.planned_through) == (12, 14)
    lease = plan(place, lease, 2, 3)
    assert (lease.planned_from, lease.planned_through) == (2, 3)


def test_settling_moves_where_the_plan_begins(place: Place) -> None:
    lease = plan(place, taken(place), 1, 10)
    lease = reader_lease.settled_through(place.queue, lease, 4, place.changes)
    assert (lease.planned_from, lease.planned_through) == (5, 10)
    place.commit()
    same = reader_lease.settled_through(place.queue, lease, 3, place.changes)
    assert same == lease == stored(place)
    assert place.changes.is_empty()


def test_plan_without_news_is_not_written(place: Place) -> None:
    lease = plan(place, taken(place), 1, 10)
    assert reader_lease.note_plan(place.queue, lease, 1, 10, place.changes) == lease
    assert place.changes.is_empty()


def test_planned_messages_do_not_expire_and_others_do(place: Place) -> None:
    place.send(b"1", b"2", b"3", b"4", ttl_ms=1_000)
    plan(place, taken(place), 2, 3)
    let_time_pass(place, 2_000)
    assert place.changes.is_empty()
    assert sweep(place) == [1, 4]


def test_what_lies_behind_a_plan_is_found_in_one_step(place: Place) -> None:
    lease = taken(place)
    for after in (0, 5, 20):
        assert reader_lease.behind_plan(place.queue, after) == after
    plan(place, lease, 3, 9)
    steps = {0: 0, 1: 1, 2: 9, 5: 9, 8: 9, 9: 9, 10: 10}
    for after, behind in steps.items():
        assert reader_lease.behind_plan(place.queue, after) == behind
    let_time_pass(place, lease.duration_ms)
    place.commit()
    assert reader_lease.behind_plan(place.queue, 5) == 5


def test_planned_messages_expire_after_the_lease(place: Place) -> None:
    place.send(b"1", ttl_ms=1_000)
    plan(place, taken(place), 1, 1)
    let_time_pass(place, MINUTE)
    assert sweep(place) == []
    place.commit()
    assert sweep(place) == [1]


def test_reader_that_comes_back_finds_its_plan(place: Place) -> None:
    plan(place, taken(place), 1, 5)
    let_time_pass(place, MINUTE)
    place.commit()
    again = taken(place)
    assert again.epoch == NOW + 1
    assert (again.planned_from, again.planned_through) == (1, 5)


def test_another_reader_does_not_inherit_the_plan(place: Place) -> None:
    plan(place, taken(place), 1, 5)
    place.now += MINUTE
    other = taken(place, "other")
    assert (other.planned_from, other.planned_through) == (0, -1)
    assert not reader_lease.is_planned(place.queue, place.queue.base + 1)


def test_given_back_leaves_nothing_planned(place: Place) -> None:
    lease = plan(place, taken(place), 1, 5)
    reader_lease.give_back(place.queue, lease, place.changes)
    assert not reader_lease.is_planned(place.queue, place.queue.base + 1)
    place.commit()
    again = taken(place)
    assert again.epoch == NOW + 1
    assert (again.planned_from, again.planned_through) == (0, -1)


# --- failed commits, restarts, deletion -------------------------------------------


def test_grant_that_was_not_committed_is_none(place: Place) -> None:
    place.send(b"1")
    take(place)
    place.fail()
    assert place.queue.lease is None
    place.refill()
    assert len(place.lock()) == 1


def test_end_that_was_not_committed_is_none(place: Place) -> None:
    place.send(b"1")
    lease = taken(place)
    reader_lease.give_back(place.queue, lease, place.changes)
    place.fail()
    assert place.queue.lease == lease
    assert delivered(place, waiting(place)) == []


def test_lease_has_its_whole_time_after_a_start() -> None:
    lease = ReaderLease(
        fragment_number=1, reader="r", epoch=1, duration_ms=MINUTE, expires_at=NOW
    )
    again = reader_lease.after_start(lease, NOW + 5)
    assert again.expires_at == NOW + 5 + MINUTE
    assert reader_lease.after_start(lease, NOW - 2 * MINUTE) == lease


def test_lease_that_is_over_stays_over_after_a_start(place: Place) -> None:
    taken(place)
    let_time_pass(place, MINUTE)
    place.commit()
    assert reader_lease.after_start(stored(place), place.now) == stored(place)
    place.table.remember_leases([stored(place)])
    assert place.queue.lease is None
    assert place.queue.last_lease == stored(place)


def loaded_anew(place: Place, leases: list[ReaderLease]) -> Fragment:
    """The fragment in a table of the next life."""
    table = type(place.table)(place.epoch + 1, run(place.store.fragments()))
    table.admit(GENERATION, place.settings)
    table.remember_leases(leases)
    (fragment,) = table.leased()
    return fragment


def test_fragment_under_a_lease_is_loaded_with_it(place: Place) -> None:
    place.send(b"1")
    lease = plan(place, taken(place), 1, 1)
    fragment = loaded_anew(place, [stored(place)])
    assert (fragment.lease, fragment.last_lease) == (lease, lease)
    assert expiry.has_timers(fragment)
    assert reader_lease.is_planned(fragment, fragment.base + 1)


def test_who_reads_is_known_by_entity(place: Place) -> None:
    assert not place.table.is_read(GENERATION)
    lease = taken(place)
    assert place.table.is_read(GENERATION)
    assert not place.table.is_read(b"other generation")
    reader_lease.give_back(place.queue, lease, place.changes)
    place.commit()
    assert not place.table.is_read(GENERATION)


def test_lease_of_a_deleted_entity_is_gone(place: Place) -> None:
    taken(place)
    place.table.remember_leases([stored(place)])
    place.table.drop(GENERATION, place.changes)
    let_time_pass(place, MINUTE)
    assert place.changes.reader_leases == []
    with pytest.raises(ReaderLeaseLost):
        reader_lease.held(place.queue, "spark", NOW, NOW)
    place.commit()
    assert run(place.store.reader_leases()) == []


def test_entity_that_is_made_again_gives_out_no_epoch_of_before(place: Place) -> None:
    before = taken(place)
    place.table.drop(GENERATION, place.changes)
    place.commit()
    place.now += 1
    place.table.admit(b"h" * 16, place.settings)
    place.queue = place.table.create(b"h" * 16, 0, place.changes)
    assert taken(place).epoch > before.epoch


def test_next_user_of_the_number_has_no_lease(place: Place) -> None:
    taken(place)
    place.table.remember_leases([stored(place)])
    place.table.drop(GENERATION, place.changes)
    place.commit()
    place.table.purged(place.queue.number)
    place.table.admit(b"h" * 16, place.settings)
    place.table._next_number = place.queue.number
    other = place.table.create(b"h" * 16, 0, place.changes)
    assert other.number == place.queue.number
    assert (other.lease, other.last_lease) == (None, None)
