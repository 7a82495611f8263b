"""Reader leases in a running bus: requests in progress when they begin and end,
restarts, failed commits, and all other ways of removing messages."""

from typing import Any

import pytest
from unit.entities.world import Client, Fault, World, message
from unit.owner.test_session_grants import ask
from unit.owner.test_session_grants import send as send_to_sessions

from simulator.caller import TrustedCaller
from twinbus.broker import reader_lease, settlement
from twinbus.broker.changes import ReaderLease
from twinbus.broker.fragment import Fragment
from twinbus.broker.message import Message
from twinbus.broker.row_id import sequence_of
from twinbus.entities.queue import Queue
from twinbus.errors import (
    MessagingEntityNotFound,
    NotAllowed,
    ReaderLeaseLost,
    ServerBusy,
)
from twinbus.operations.bulk.bulk_entities import BulkEntities
from twinbus.operations.bulk.requests import (
    LeaseRequest,
    PlanLimits,
    PlannedFragment,
    PlanRequest,
    SettleRequest,
)
from twinbus.operations.deletion import delete_messages
from twinbus.store.base import CommitFailed
from twinbus.store.memory import MemoryStore

from .callers import opened
from .test_cancel_sent import BACKLOG, cancelled, filled, identified

MINUTE = 60_000


class Reader:
    """A reader of ranges, as the bulk requests see it."""

    def __init__(self, world: World, name: str = "spark") -> None:
        self._world = world
        self._name = name
        self.bulk = BulkEntities(world.namespace)
        self.caller = TrustedCaller(f"bulk {name}")

    async def take(self, path: str = "orders") -> str:
        (grant,) = await self.bulk.lease(
            self.caller, self._name, MINUTE, [LeaseRequest(path=path, epoch=None)]
        )
        return grant.epoch

    async def plan(
        self, epoch: str | None, *paths: str, is_aligned: bool = False
    ) -> list[PlannedFragment]:
        requests = [
            PlanRequest(
                path=path,
                generation=self._world.namespace.queue(path).record.generation.hex(),
                epoch=epoch,
                firsts={0: 1},
            )
            for path in paths or ("orders",)
        ]
        limits = PlanLimits(
            max_messages=100,
            max_bytes=1 << 20,
            split_messages=10,
            is_aligned=is_aligned,
        )
        return list(await self.bulk.plan(self.caller, self._name, requests, limits))

    async def settle(self, epoch: str, end: int) -> int:
        request = SettleRequest(path="orders", epoch=epoch, ends={0: end})
        (settled,) = await self.bulk.settle(self.caller, self._name, [request])
        return settled.completed

    async def release(self, epoch: str) -> None:
        await self.bulk.release(
            self.caller, self._name, [LeaseRequest(path="orders", epoch=epoch)]
        )


@pytest.fixture
async def queue(world: World) -> Fragment:
    return (await world.namespace.create_queue("orders", {})).fragment()


@pytest.fixture
def reader(world: World) -> Reader:
    return Reader(world)


async def send(world: World, queue: Fragment, count: int = 1, ttl_ms: int = 0) -> None:
    for _ in range(count):
        sent = message(ttl_ms=ttl_ms)
        queue.enqueue(sent, 1, world.clock.now(), world.owner.changes)
    await world.owner.durable()


def receiving(
    world: World, queue: Fragment, wanted: int = 10, *, peek_lock: bool = True
) -> Client:
    client = Client(wanted=wanted, peek_lock=peek_lock)
    world.owner.join(queue, client)
    world.owner.offer_capacity(queue, client)
    return client


def numbers(messages: list[Message]) -> list[int]:
    return [sequence_of(message.row_id) for message in messages]


def locked(client: Client) -> list[int]:
    return numbers([lock.message for lock in client.locks])


async def stored(world: World) -> ReaderLease:
    (lease,) = await world.store.inner.reader_leases()
    return lease


def counted(planned: list[PlannedFragment]) -> list[int]:
    return [
        sum(split.message_count for split in fragment.splits) for fragment in planned
    ]


# --- what is under way when it is granted -------------------------------------------


async def test_window_that_was_hungry_is_not_filled_under_it(
    world: World, queue: Fragment, reader: Reader
) -> None:
    """Or it would hand out what has been settled meanwhile."""
    await send(world, queue, 3)
    queue.restore(queue.record())
    client = receiving(world, queue)
    epoch = await reader.take()
    await world.settled()
    assert queue.window.ready_count() == 0
    await reader.plan(epoch)
    assert await reader.settle(epoch, 3) == 2
    await reader.release(epoch)
    await world.settled()
    assert locked(client) == [3]


async def test_portion_that_is_being_read_is_void(
    world: World, queue: Fragment, reader: Reader
) -> None:
    await send(world, queue, 3)
    queue.restore(queue.record())
    read_refills = world.store.inner.read_refills

    async def read(*where: Any) -> list[list[Message]]:
        found = await read_refills(*where)
        reader_lease.take(
            queue, "spark", MINUTE, world.clock.now(), world.owner.changes
        )
        return found

    world.store.read_refills = read  # type: ignore[attr-defined]
    client = receiving(world, queue)
    await world.settled()
    assert (queue.window.ready_count(), client.locks) == (0, [])


async def test_session_is_not_granted_if_the_lease_was_while_the_store_was_read(
    world: World,
) -> None:
    made = await world.namespace.create_queue("orders", {"requires_session": True})
    queue = made.fragment()
    await send_to_sessions(world, queue, "a")
    read_session = world.store.inner.read_session

    async def read(*where: Any) -> list[Message]:
        found = await read_session(*where)
        if queue.lease is None:
            now, changes = world.clock.now(), world.owner.changes
            reader_lease.take(queue, "spark", MINUTE, now, changes)
        return found

    world.store.read_session = read  # type: ignore[attr-defined]
    asker = await ask(world, queue)
    assert asker.holder is None
    del world.store.read_session  # type: ignore[attr-defined]
    await world.advance(MINUTE)
    assert asker.name == "a"


async def test_what_receivers_were_promised_is_not_planned(
    world: World, queue: Fragment, reader: Reader
) -> None:
    await send(world, queue, 3)
    client = receiving(world, queue, 2, peek_lock=False)
    epoch = await reader.take()
    assert counted(await reader.plan(epoch)) == [1]
    assert numbers(client.removed) == [1, 2]


async def test_promise_that_could_not_be_kept_is_planned(
    world: World, queue: Fragment, reader: Reader
) -> None:
    await send(world, queue, 2)
    world.store.faults.append(Fault(CommitFailed("once")))
    client = receiving(world, queue, 1, peek_lock=False)
    await world.settled()
    epoch = await reader.take()
    assert counted(await reader.plan(epoch)) == [2]
    assert (client.removed, client.promised_count) == ([], 0)


async def test_grant_that_could_not_be_committed_is_told(
    world: World, queue: Fragment, reader: Reader
) -> None:
    await send(world, queue, 1)
    client = receiving(world, queue)
    world.store.faults.append(Fault(CommitFailed("once")))
    with pytest.raises(ServerBusy):
        await reader.take()
    assert queue.lease is None
    await world.advance(1)
    assert locked(client) == [1, 1]


# --- its end ------------------------------------------------------------------------


async def test_receivers_get_messages_as_soon_as_it_has_run_out(
    world: World, queue: Fragment, reader: Reader
) -> None:
    await reader.take()
    client = receiving(world, queue)
    await send(world, queue, 2)
    await world.advance(MINUTE - 1)
    assert client.locks == []
    await world.advance(1)
    assert locked(client) == [1, 2]


async def test_who_waits_for_a_session_gets_it_as_soon_as_it_has_run_out(
    world: World, reader: Reader
) -> None:
    made = await world.namespace.create_queue("orders", {"requires_session": True})
    queue = made.fragment()
    epoch = await reader.take()
    await send_to_sessions(world, queue, "a", "b")
    named, following = await ask(world, queue, "b"), await ask(world, queue)
    assert (named.holder, following.holder) == (None, None)
    await reader.release(epoch)
    await world.settled()
    assert (named.name, following.name) == ("b", "a")


async def test_receivers_wait_for_the_commit_of_its_end(
    world: World, queue: Fragment, reader: Reader
) -> None:
    await send(world, queue)
    await reader.take()
    client = receiving(world, queue)
    world.store.faults.append(Fault(CommitFailed("once")))
    await world.advance(MINUTE)
    assert client.locks == []
    assert (await stored(world)).expires_at > 0
    await world.advance(1)
    assert locked(client) == [1]
    assert (await stored(world)).expires_at == 0


async def test_settlement_that_outlasts_the_lease_is_refused(
    world: World, queue: Fragment, reader: Reader
) -> None:
    await send(world, queue, 3)
    epoch = await reader.take()
    await reader.plan(epoch)
    outlines = world.store.inner.outlines

    async def read(*where: Any) -> Any:
        found = await outlines(*where)
        world.clock.advance(MINUTE)
        world.owner.tick()
        return found

    world.store.outlines = read  # type: ignore[attr-defined]
    with pytest.raises(ReaderLeaseLost):
        await reader.settle(epoch, 3)
    client = receiving(world, queue)
    await world.settled()
    assert locked(client) == [1, 2, 3]


# --- restarts and failed commits ----------------------------------------------------


async def restarted(world: World) -> World:
    """The same store and catalog in another life; the first was killed."""
    again = World()
    again.clock.advance(world.clock.now() - again.clock.now())
    world.store.inner.abandon()
    await world.catalog.inner.close()
    again.store.inner = MemoryStore(world.store.inner.disk)
    again.catalog.inner = world.catalog.inner
    await again.start()
    return again


async def test_lease_has_its_whole_time_again_after_a_restart(
    world: World, queue: Fragment, reader: Reader
) -> None:
    await send(world, queue, 2, ttl_ms=1_000)
    epoch = await reader.take()
    await reader.plan(epoch)
    world.clock.advance(10 * MINUTE)
    again = await restarted(world)
    found = again.namespace.queue("orders").fragment()
    client = receiving(again, found)
    await again.advance(MINUTE - 1)
    assert (client.locks, found.active_count) == ([], 2)
    assert await Reader(again).settle(epoch, 2) == 1
    await again.advance(1)
    assert found.lease is None
    assert found.active_count == 0, "what was not settled had expired"
    await again.stop()


async def test_lease_of_before_ends_though_nobody_touches_the_queue(
    world: World, queue: Fragment, reader: Reader
) -> None:
    await reader.take()
    again = await restarted(world)
    await again.advance(MINUTE)
    assert (await stored(again)).expires_at == 0
    await again.stop()


async def test_lease_that_had_run_out_does_not_come_back_to_life(
    world: World, queue: Fragment, reader: Reader
) -> None:
    epoch = await reader.take()
    await world.advance(MINUTE)
    again = await restarted(world)
    assert again.namespace.queue("orders").fragment().lease is None
    with pytest.raises(ReaderLeaseLost):
        await Reader(again).plan(epoch)
    assert int(await Reader(again, "other").take()) == int(epoch) + 1
    await again.stop()


async def test_failed_commit_neither_shortens_nor_prolongs_it(
    world: World, queue: Fragment, reader: Reader
) -> None:
    await reader.take()
    world.clock.advance(10 * MINUTE)
    again = await restarted(world)
    found = again.namespace.queue("orders").fragment()
    assert found.lease is not None
    ends_at = found.lease.expires_at
    again.clock.advance(10_000)
    again.store.faults.append(Fault(CommitFailed("once")))
    with pytest.raises(ServerBusy):
        await send(again, found)
    assert found.lease is not None
    assert found.lease.expires_at == ends_at == again.clock.now() + 50_000
    await again.advance(50_000)
    assert found.lease is None
    await again.stop()


async def test_plan_and_settlement_that_failed_have_not_happened(
    world: World, queue: Fragment, reader: Reader
) -> None:
    await send(world, queue, 3)
    epoch = await reader.take()
    await reader.plan(epoch)
    planned = await stored(world)
    world.store.faults.append(Fault(CommitFailed("once")))
    with pytest.raises(ServerBusy):
        await reader.settle(epoch, 3)
    assert (queue.lease, queue.active_count) == (planned, 3)
    assert await reader.settle(epoch, 3) == 2


# --- planning -----------------------------------------------------------------------


async def test_what_is_about_to_expire_is_not_planned(
    world: World, queue: Fragment, reader: Reader
) -> None:
    """It expired between the last commit and the plan."""
    await send(world, queue, 2)
    epoch = await reader.take()
    outlines = world.store.inner.outlines

    async def read(*where: Any) -> Any:
        found = await outlines(*where)
        (first,) = await world.store.inner.read_numbered([queue.base + 1])
        queue.expire(first, world.clock.now(), world.owner.changes)
        del world.store.outlines  # type: ignore[attr-defined]
        return found

    world.store.outlines = read  # type: ignore[attr-defined]
    assert counted(await reader.plan(epoch)) == [1]


async def test_plan_is_void_if_a_commit_failed_meanwhile(
    world: World, queue: Fragment, reader: Reader
) -> None:
    await send(world, queue, 2)
    epoch = await reader.take()
    outlines = world.store.inner.outlines

    async def read(*where: Any) -> Any:
        world.store.faults.append(Fault(CommitFailed("once")))
        return await outlines(*where)

    world.store.outlines = read  # type: ignore[attr-defined]
    with pytest.raises(ServerBusy):
        await reader.plan(epoch)


async def test_aligned_plan_has_nothing_that_came_while_it_was_made(
    world: World, queue: Fragment, reader: Reader
) -> None:
    other = (await world.namespace.create_queue("parcels", {})).fragment()
    await send(world, queue)
    world.clock.advance(5)
    outlines = world.store.inner.outlines
    read_count = 0

    async def read(*where: Any) -> Any:
        nonlocal read_count
        read_count += 1
        if read_count == 2:
            # First to the queue that has been read, then to the one that will be.
            for fragment in (queue, other):
                world.clock.advance(5)
                now, changes = world.clock.now(), world.owner.changes
                fragment.enqueue(message(), 1, now, changes)
                changes.seal(world.owner.epoch, world.owner._batch + 1, now)
                await world.store.inner.commit(changes)
                changes.publish()
                world.owner._batch += 1
                world.owner.changes = type(changes)()
        return await outlines(*where)

    world.store.outlines = read  # type: ignore[attr-defined]
    planned = await reader.plan(None, "orders", "parcels", is_aligned=True)
    assert (counted(planned), read_count) == ([1, 0], 2)


# --- others who remove messages -----------------------------------------------------


async def test_batch_delete_leaves_what_was_planned(
    world: World, queue: Fragment, reader: Reader
) -> None:
    await send(world, queue, 2)
    epoch = await reader.take()
    await reader.plan(epoch)
    await send(world, queue, 1)
    assert await delete_messages(opened(world), 9, world.clock.now() + 1) == 1
    assert await reader.settle(epoch, 3) == 2


async def test_batch_delete_does_not_read_what_was_planned(
    world: World, queue: Fragment, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop, and all who read the store, would wait for that."""
    await send(world, queue, 50)
    await reader.plan(await reader.take())
    await send(world, queue, 1)
    read_active = world.store.inner.read_active
    reads: list[int] = []

    async def noted(number: int, after: int, *limits: int) -> list[Message]:
        reads.append(after)
        return await read_active(number, after, *limits)

    monkeypatch.setattr(world.store.inner, "read_active", noted)
    assert await delete_messages(opened(world), 1, world.clock.now() + 1) == 1
    assert reads == [50]


async def test_cancel_sent_leaves_what_was_planned(world: World) -> None:
    reader = Reader(world)
    queue = await filled(world, BACKLOG, identified(b"1"))
    epoch = await reader.take(BACKLOG)
    await reader.plan(epoch, BACKLOG)
    assert await cancelled(world, queue, b"1") == [False]
    await world.advance(MINUTE)
    assert await cancelled(world, queue, b"1") == [True]


async def test_time_to_live_spares_what_was_planned(
    world: World, queue: Fragment, reader: Reader
) -> None:
    await send(world, queue, 2, ttl_ms=1_000)
    epoch = await reader.take()
    await reader.plan(epoch)
    await send(world, queue, 2, ttl_ms=1_000)
    for _ in range(6):
        await world.advance(10_000)
        (grant,) = await reader.bulk.lease(
            reader.caller, "spark", MINUTE, [LeaseRequest(path="orders", epoch=epoch)]
        )
        assert grant.epoch == epoch
    await world.advance(MINUTE - 1)
    assert queue.active_count == 2
    assert await reader.settle(epoch, 3) == 2


async def test_queue_with_a_reader_is_not_idle(world: World, reader: Reader) -> None:
    settings = {"auto_delete_on_idle_ms": 300_000}
    await world.namespace.create_queue("orders", settings)
    grants = await reader.bulk.lease(
        reader.caller, "spark", 400_000, [LeaseRequest(path="orders", epoch=None)]
    )
    assert len(grants) == 1
    for _ in range(39):
        await world.advance(10_000)
        world.namespaces.tick(world.clock.now())
        await world.namespace.idle.finished()
    assert world.namespace.queue("orders").path == "orders"
    for _ in range(35):
        await world.advance(10_000)
        world.namespaces.tick(world.clock.now())
        await world.namespace.idle.finished()
    with pytest.raises(MessagingEntityNotFound):
        world.namespace.queue("orders")


async def test_queue_that_forwards_has_no_readers(world: World, reader: Reader) -> None:
    await world.namespace.create_queue("target", {})
    await world.namespace.create_queue("orders", {"forward_to": "target"})
    with pytest.raises(NotAllowed):
        await reader.take()


async def test_queue_that_begins_to_forward_waits_for_the_end(
    world: World, queue: Fragment, reader: Reader
) -> None:
    target = await world.namespace.create_queue("target", {})
    await send(world, queue, 2)
    epoch = await reader.take()
    await reader.plan(epoch)
    await world.namespace.update_queue("orders", {"forward_to": "target"})
    await world.settled()
    assert target.counts().active == 0
    assert await reader.settle(epoch, 2) == 1
    await world.advance(MINUTE)
    assert (queue.active_count, target.counts().active) == (0, 1)


async def test_deleted_queue_leaves_no_lease_to_the_next_of_its_name(
    world: World, queue: Fragment, reader: Reader
) -> None:
    epoch = await reader.take()
    await world.namespace.delete(world.namespace.queue("orders"))
    made: Queue = await world.namespace.create_queue("orders", {})
    client = receiving(world, made.fragment())
    await send(world, made.fragment())
    assert locked(client) == [1]
    with pytest.raises(ReaderLeaseLost):
        await reader.plan(epoch)
    await world.advance(MINUTE)
    assert await world.store.inner.reader_leases() == []


async def test_lock_of_before_settles_nothing(
    world: World, queue: Fragment, reader: Reader
) -> None:
    await send(world, queue)
    client = receiving(world, queue)
    epoch = await reader.take()
    await reader.plan(epoch)
    error = type(queue.lock_lost())
    with pytest.raises(error):
        settlement.complete(
            queue, client.locks[0], 1, world.clock.now(), world.owner.changes
        )
    assert await reader.settle(epoch, 2) == 1
