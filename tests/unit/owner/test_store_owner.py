"""The owner's loop: commits, replies after them, and the state after failures."""

import asyncio

import pytest
from unit.entities.world import Client, Fault, World, message

from twinbus.broker import operation_log, settlement
from twinbus.broker.admission import Admission, Duplicates
from twinbus.broker.commit_listener import CommitListener
from twinbus.broker.fragment import Fragment
from twinbus.broker.message import Message
from twinbus.errors import InternalError, ServerBusy, ServiceBusError, StoreRefused
from twinbus.limits import CHANGED_MESSAGES, PENDING_BYTES
from twinbus.links.sending import check_room
from twinbus.store.base import CommitFailed, CommitUnknown, LeaseLost, StoreFull


class Ear(CommitListener):
    """Hears of commits and of failures."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[object] = []

    def committed(self, items: list[int]) -> None:
        self.heard += items

    def failed(self, items: list[int], error: ServiceBusError) -> None:
        self.heard.append(error)


@pytest.fixture
async def queue(world: World) -> Fragment:
    made = await world.namespace.create_queue("orders", {"max_delivery_count": 3})
    return made.fragment()


def send(world: World, queue: Fragment, count: int = 1) -> None:
    for _ in range(count):
        queue.enqueue(message(), 1, world.clock.now(), world.owner.changes)
    world.owner.wake()


async def test_everything_of_a_turn_is_one_commit(
    world: World, queue: Fragment
) -> None:
    before = len(world.store.commits)
    send(world, queue, 5)
    send(world, queue, 5)
    await world.owner.durable()
    assert len(world.store.commits) == before + 1
    assert queue.window.ready_count() == 10


async def test_many_may_wait_for_one_commit(world: World, queue: Fragment) -> None:
    queue.enqueue(message(), 1, world.clock.now(), world.owner.changes)
    before = len(world.store.commits)
    await asyncio.gather(*(world.owner.durable() for _ in range(5)))
    assert len(world.store.commits) == before + 1


async def test_waiting_for_nothing_ends_too(world: World) -> None:
    await world.owner.durable()


async def test_what_waits_is_told_after_the_commit(
    world: World, queue: Fragment
) -> None:
    ear, owner = Ear(), world.owner
    send(world, queue)
    ear.note(owner, 7)
    assert ear.heard == []
    await owner.durable()
    assert ear.heard == [7]


# --- failures -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (StoreFull("full"), "store is full"),
        (CommitFailed("no"), "nothing of it happened"),
        (CommitUnknown("who knows"), "nothing of it happened"),
    ],
)
async def test_failed_commit_is_told_and_forgotten(
    world: World, queue: Fragment, error: Exception, text: str
) -> None:
    ear, owner = Ear(), world.owner
    send(world, queue)
    ear.note(owner, 7)
    world.store.faults = [Fault(error)]
    with pytest.raises(ServerBusy, match=text):
        await owner.durable()
    assert [type(heard) for heard in ear.heard] == [StoreRefused]
    assert (queue.active_count, queue.next_sequence) == (0, 1)
    send(world, queue)
    await owner.durable()
    assert queue.active_count == 1
    assert world.fatal == []


async def test_commit_of_unknown_outcome_that_happened_is_kept(
    world: World, queue: Fragment
) -> None:
    send(world, queue)
    world.store.faults = [Fault(CommitUnknown("who knows"), happens=True)]
    await world.owner.durable()
    assert queue.window.ready_count() == 1
    send(world, queue)
    await world.owner.durable()
    assert queue.window.ready_count() == 2


async def test_failed_commit_loses_locks_and_the_next_tick_delivers_again(
    world: World, queue: Fragment
) -> None:
    client, owner = Client(wanted=5), world.owner
    owner.join(queue, client)
    send(world, queue, 2)
    await owner.durable()
    owner.offer_capacity(queue, client)
    first = list(client.locks)
    settlement.complete(queue, first[0], 1, world.clock.now(), owner.changes)
    owner.wake()
    world.store.faults = [Fault(CommitFailed("no"))]
    await world.settled()
    assert client.locks == first
    await world.advance(100)
    assert [lock.message.row_id for lock in client.locks[2:]] == [
        queue.row_id(1),
        queue.row_id(2),
    ]
    assert not any(queue.holds(lock, world.clock.now()) for lock in first)
    assert [lock.message.delivery_count for lock in client.locks] == [0] * 4


@pytest.mark.parametrize("happens", [False, True])
async def test_owner_that_was_replaced_stops_and_lets_nobody_wait(
    world: World, queue: Fragment, happens: bool
) -> None:
    ear, owner = Ear(), world.owner
    send(world, queue)
    ear.note(owner, 7)
    world.store.faults = [Fault(LeaseLost("taken over"), happens)]
    with pytest.raises(InternalError, match="taken over"):
        await owner.durable()
    assert [type(error) for error in world.fatal] == [LeaseLost]
    assert [type(heard) for heard in ear.heard] == [InternalError]


async def test_store_that_cannot_say_what_happened_stops_its_owner(
    world: World, queue: Fragment
) -> None:
    send(world, queue)
    world.store.faults = [Fault(CommitUnknown("who knows"))]
    world.store.errors["last_batch"] = CommitUnknown("still nobody")
    with pytest.raises(InternalError, match="still nobody"):
        await world.owner.durable()
    assert len(world.fatal) == 1


async def test_bug_stops_the_owner_loudly(
    world: World, queue: Fragment, caplog: pytest.LogCaptureFixture
) -> None:
    send(world, queue)
    world.store.errors["expired"] = AssertionError("a bug")
    world.clock.advance(60_000)
    world.owner.tick()
    await world.settled()
    assert "a bug" in str(world.fatal[0])
    assert "because of a bug" in caplog.text


# --- receivers ------------------------------------------------------------------


async def test_receiver_gets_what_comes_later(world: World, queue: Fragment) -> None:
    client = Client(wanted=1)
    world.owner.join(queue, client)
    world.owner.offer_capacity(queue, client)
    send(world, queue, 2)
    await world.owner.durable()
    assert len(client.locks) == 1


async def test_receiver_gets_what_only_the_disk_has(
    world: World, queue: Fragment
) -> None:
    send(world, queue, 50)
    await world.owner.durable()
    client = Client(wanted=100)
    world.owner.join(queue, client)
    world.owner.offer_capacity(queue, client)
    served = client.served_count
    await world.settled()
    assert len(client.locks) == 50
    assert served == 0
    assert client.served_count > 0


async def test_removed_messages_arrive_after_the_commit(
    world: World, queue: Fragment
) -> None:
    send(world, queue, 3)
    await world.owner.durable()
    client = Client(peek_lock=False, wanted=2)
    world.owner.join(queue, client)
    world.owner.offer_capacity(queue, client)
    assert (client.removed, client.served_count) == ([], 0)
    await world.settled()
    assert len(client.removed) == 2
    assert (client.promised_count, queue.active_count) == (0, 1)
    assert client.served_count > 0


async def test_removed_messages_of_a_failed_commit_stay(
    world: World, queue: Fragment
) -> None:
    send(world, queue, 3)
    await world.owner.durable()
    client = Client(peek_lock=False, wanted=2)
    world.owner.join(queue, client)
    world.store.faults = [Fault(CommitFailed("no"))]
    world.owner.offer_capacity(queue, client)
    await world.settled()
    assert (client.removed, client.promised_count) == ([], 0)
    assert queue.active_count == 3
    await world.advance(100)
    assert (len(client.removed), client.promised_count) == (2, 0)
    assert queue.active_count == 1


async def test_nothing_is_left_of_a_receiver_that_left_while_promised(
    world: World, queue: Fragment
) -> None:
    send(world, queue, 3)
    await world.owner.durable()
    client = Client(peek_lock=False, wanted=2)
    world.owner.join(queue, client)
    world.owner.offer_capacity(queue, client)
    world.owner.leave(queue, client)
    await world.settled()
    assert world.owner._deliveries._dispatches == {}
    world.owner.leave(queue, client)
    world.owner.offer_capacity(queue, client)


async def test_refill_that_nobody_waits_for_any_more_hurts_nobody(
    world: World, queue: Fragment
) -> None:
    send(world, queue, 50)
    await world.owner.durable()
    client = Client(wanted=100)
    world.owner.join(queue, client)
    world.owner.offer_capacity(queue, client)
    world.owner.leave(queue, client)
    await world.settled()
    late = Client(wanted=100)
    world.owner.join(queue, late)
    world.owner.offer_capacity(queue, late)
    await world.settled()
    assert len(client.locks) + len(late.locks) == 50


async def test_what_expires_during_a_commit_is_not_read_again(
    world: World, queue: Fragment
) -> None:
    """The window lets go of it before its removal is durable."""
    first, second = Client(), Client(wanted=100)
    world.owner.join(queue, first)
    for _ in range(40):
        mortal = message(ttl_ms=1_000)
        queue.enqueue(mortal, 1, world.clock.now(), world.owner.changes)
    await world.owner.durable()
    world.store.gate.clear()
    world.store.is_committing.clear()
    send(world, queue)
    await world.store.is_committing.wait()
    world.clock.advance(1_000)
    world.owner.tick()
    world.owner.leave(queue, first)
    world.owner.join(queue, second)
    world.owner.offer_capacity(queue, second)
    world.store.gate.set()
    await world.settled()
    assert len(second.locks) == queue.active_count == 1


# --- time, pressure, end --------------------------------------------------------


async def test_locks_end_with_time(world: World, queue: Fragment) -> None:
    send(world, queue)
    await world.owner.durable()
    client = Client(wanted=2)
    world.owner.join(queue, client)
    world.owner.offer_capacity(queue, client)
    await world.advance(60_000)
    assert [lock.message.delivery_count for lock in client.locks] == [1, 1]
    assert len({lock.token for lock in client.locks}) == 2
    assert not world.owner.has_due_work()


async def test_locks_that_end_at_once_are_counted_by_several_commits(
    world: World, queue: Fragment
) -> None:
    count = 2 * CHANGED_MESSAGES + 1
    send(world, queue, count)
    await world.owner.durable()
    client = Client(wanted=count)
    world.owner.join(queue, client)
    world.owner.offer_capacity(queue, client)
    await world.settled()
    assert len(queue.locks) == count
    before = len(world.store.commits)
    await world.advance(60_000)
    changed = [len(changes.active_changed) for changes in world.store.commits[before:]]
    assert changed[:3] == [CHANGED_MESSAGES, CHANGED_MESSAGES, 1]
    assert not queue.locks and not world.owner.has_due_work()


async def test_too_much_that_is_not_durable_is_told_and_taken_back(
    world: World, queue: Fragment
) -> None:
    large = Message(bytes(PENDING_BYTES), 0, 0, 0)
    queue.enqueue(large, 1, world.clock.now(), world.owner.changes)
    send(world, queue)
    send(world, queue)
    assert world.pressure == [True]
    await world.owner.durable()
    assert world.pressure == [True, False]


class Refused(Admission):
    """Holds much, and changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.pending_bytes = 2 * PENDING_BYTES

    def apply(self, duplicates: Duplicates, now: int) -> None:
        pass


async def test_pressure_of_what_is_refused_is_taken_back_without_a_commit(
    world: World,
) -> None:
    world.owner.admit(Refused())
    await world.settled()
    assert world.pressure == [True, False]


async def test_others_get_their_turn_while_there_is_more_to_do(
    world: World, queue: Fragment
) -> None:
    """Also if the store never suspends."""
    happened: list[str] = []

    async def purge(number: int, limit: int) -> bool:
        happened.append("purge")
        asyncio.get_running_loop().call_soon(happened.append, "other")
        return len(happened) > 4

    world.store.inner.purge = purge  # type: ignore[method-assign]
    await world.namespace.delete_queue("orders")
    while world.owner.table.purging():
        await world.settled()
    assert happened[:5] == ["purge", "other", "purge", "other", "purge"]


async def test_stop_commits_what_was_accepted(world: World, queue: Fragment) -> None:
    send(world, queue, 3)
    await world.owner.stop()
    records = world.store.inner.disk.fragments
    assert [record.active_count for record in records.values()] == [3]


async def test_stop_commits_operations_that_waited(
    world: World, queue: Fragment
) -> None:
    actor = world.owner.introduce("somebody")
    assert world.owner.introduce("somebody else") == actor + 1
    world.owner.changes.log.event(operation_log.REFUSE, actor, queue.base, 1, "why")
    before = len(world.store.commits)
    await world.owner.stop()
    assert len(world.store.commits) == before + 1


async def test_full_store_is_spared_for_a_while(world: World, queue: Fragment) -> None:
    world.store.faults = [Fault(StoreFull("full"))]
    send(world, queue)
    await world.settled()
    assert world.owner.refuses_until == world.clock.now() + 5_000
    await world.advance(5_000)
    assert world.owner.refuses_until <= world.clock.now()


async def test_clock_set_back_does_not_prolong_the_pause(
    world: World, queue: Fragment
) -> None:
    world.store.faults = [Fault(StoreFull("full"))]
    send(world, queue)
    await world.settled()
    world.clock.jump(-86_400_000)
    world.owner.tick()
    assert world.owner.refuses_until == world.clock.now() + 5_000


async def test_long_log_is_committed_without_another_reason(
    world: World, queue: Fragment
) -> None:
    send(world, queue)
    await world.owner.durable()
    client = Client(wanted=1)
    world.owner.join(queue, client)
    world.owner.offer_capacity(queue, client)
    before = len(world.store.commits)
    renewed = client.locks[0].message
    for _ in range(5_000):
        world.owner.changes.log.record(
            operation_log.RENEW, 1, renewed, world.clock.now()
        )
    world.owner.tick()
    await world.settled()
    assert len(world.store.commits) == before + 1


async def test_store_without_room_refuses_messages_and_settles(
    world: World, queue: Fragment
) -> None:
    """No commit fails, so no lock is lost; with room again it goes on by itself."""
    send(world, queue, 3)
    await world.settled()
    client = Client(wanted=3)
    world.owner.join(queue, client)
    world.owner.offer_capacity(queue, client)
    await world.settled()
    world.store.room_bytes = 0
    send(world, queue)
    await world.settled()
    assert world.owner.is_full
    with pytest.raises(ServerBusy, match="store is full"):
        check_room(queue, 1, world.clock.now())
    await world.advance(10_000)
    assert world.clock.now() < world.owner.refuses_until, "for as long as it takes"
    now = world.clock.now()
    for lock in client.locks:
        settlement.complete(queue, lock, client.actor, now, world.owner.changes)
    await world.owner.durable()
    assert not queue.locks
    world.store.room_bytes = 10_000
    await world.advance(100)
    assert not world.owner.is_full
    check_room(queue, 10_000, world.clock.now())
    with pytest.raises(ServerBusy, match="store is full"):
        check_room(queue, 10_001, world.clock.now())


async def test_scarce_room_makes_reading_pause_early(
    world: World, queue: Fragment
) -> None:
    send(world, queue)
    world.store.room_bytes = 10
    await world.settled()
    assert not world.owner.is_under_pressure
    send(world, queue, 20)
    assert world.owner.is_under_pressure
    await world.settled()
    assert not world.owner.is_under_pressure
