"""Bugs that worlds have found, each as a test of its own.

Each test is a bus in virtual time whose store does one thing at one moment, so that it
stays valid when the worlds of all seeds change.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from simulator.audited_message import Rules
from simulator.auditor import Auditor
from simulator.catalog import FaultyCatalog
from simulator.clock import SimulatedClock
from simulator.draft import Draft
from simulator.life import Life
from simulator.links import (
    ClientSettlement,
    SimulatedReceiver,
    SimulatedSender,
)
from simulator.loop import VirtualLoop, run_virtually
from simulator.requests import batch_delete, create_queue, delete_queue
from simulator.session_links import SimulatedAccept
from simulator.store import Faults, FaultyStore
from simulator.store_check import check_content, in_memory
from simulator.trace import Trace
from twinbus.errors import MessageNotFound, MessagingEntityNotFound, ServerBusy
from twinbus.operations import deferred, locks, scheduling
from twinbus.store.base import CommitFailed, LeaseLost, StoreFull
from twinbus.store.lease import StoreLease
from twinbus.store.memory import MemoryDisk, MemoryStore
from twinbus.store.memory_catalog import MemoryCatalog

RULES = Rules(
    lock_duration_ms=60_000,
    max_delivery_count=10,
    default_ttl_ms=0,
    dead_letter_on_expiration=False,
)


class Scripted:
    """A store of which a scene delays or refuses single operations."""

    def __init__(self, term_ms: int = 0) -> None:
        self.store = MemoryStore(MemoryDisk(term_ms))
        self.calls: list[str] = []
        # What to await before, and after, an operation.
        self.before: dict[str, Callable[[], Awaitable[None]]] = {}
        self.after: dict[str, Callable[[], Awaitable[None]]] = {}

    @property
    def lease(self) -> StoreLease:
        return self.store.lease

    @property
    def location(self) -> str:
        return self.store.location

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self.store, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            if name in self.before:
                await self.before[name]()
            result = await operation(*args, **kwargs)
            if name in self.after:
                await self.after[name]()
            return result

        return call


class Nowhere:
    """Surroundings in which nothing happens."""

    def crash(self, how: str, *, torn: bool = False) -> None:
        raise AssertionError(how)

    def about_to_commit(self) -> None: ...

    def commit_did_not_happen(self) -> None: ...

    def bus_has_started_over(self) -> None: ...

    def is_going_in_circles(self) -> None:
        raise AssertionError("the bus calls its store again and again in no time")

    def note(self, what: str) -> None: ...


def fail(error: BaseException) -> None:
    raise error


def play(
    scene: Callable[[Life, Scripted], Awaitable[None]],
    *,
    tick_ms: int = 100,
    term_ms: int = 0,
) -> None:
    """Act out a scene on a fresh bus with the queue `apples`. With a term, the bus has
    lost its lease at the end."""
    loop = VirtualLoop()
    script = Scripted(term_ms)

    async def act() -> None:
        random = Random(1)
        world = Nowhere()
        life = Life(
            FaultyStore(script, Faults(), random, world),
            FaultyCatalog(MemoryCatalog(), Faults(), random, world),
            SimulatedClock(loop),
            random,
            Auditor(),
            Trace(),
            tick_ms=tick_ms,
            on_failure=fail,
        )
        await life.start()
        await create_queue(life, "apples", RULES)
        await scene(life, script)
        assert isinstance(life.fatal, LeaseLost) is (term_ms > 0)
        await life.stop()

    run_virtually(loop, act())


def sender(life: Life, path: str = "apples") -> SimulatedSender:
    return SimulatedSender(life, life.namespace.queue(path), 1)


def receiver(life: Life, *, peek_lock: bool) -> SimulatedReceiver:
    queue = life.namespace.queue("apples")
    return SimulatedReceiver(life, queue, False, peek_lock, 2)


def sleep(seconds: float) -> Callable[[], Awaitable[None]]:
    return lambda: asyncio.sleep(seconds)


def refusing(error: Exception) -> Callable[[], Awaitable[None]]:
    async def refuse() -> None:
        raise error

    return refuse


async def defer_one(life: Life) -> int:
    """A deferred message; its sequence number."""
    sender(life).send([Draft(uid="m0000001")])
    taker = receiver(life, peek_lock=True)
    taker.give_credit(1, False)
    await asyncio.sleep(1)
    held = next(iter(life.held.values()))
    assert held.lock is not None
    taker.settle(held, ClientSettlement(kind="defer"))
    await asyncio.sleep(1)
    taker.leave()
    return 1


@pytest.mark.parametrize("operation", ["purge", "trim"])
def test_a_full_store_does_not_end_the_bus_that_clears_up(operation: str) -> None:
    async def scene(life: Life, script: Scripted) -> None:
        script.before[operation] = refusing(StoreFull("no room"))
        await delete_queue(life, "apples")
        await asyncio.sleep(61)
        assert operation in script.calls
        del script.before[operation]
        await asyncio.sleep(61)
        assert not life.owner.table.purging()

    play(scene)


def test_receiving_and_deleting_from_a_full_store_lets_time_pass() -> None:
    async def scene(life: Life, script: Scripted) -> None:
        sender(life).send([Draft(uid="m0000001")])
        await asyncio.sleep(1)
        script.before["commit"] = refusing(StoreFull("no room"))
        script.calls.clear()
        receiver(life, peek_lock=False).give_credit(10, False)
        await asyncio.sleep(1)
        assert 0 < script.calls.count("commit") < 30
        del script.before["commit"]
        await asyncio.sleep(20)
        assert life.namespace.queue("apples").fragment().size_bytes == 0

    play(scene)


def test_what_is_asked_while_the_bus_starts_over_is_refused() -> None:
    async def scene(life: Life, script: Scripted) -> None:
        script.before["commit"] = refusing(CommitFailed("once"))
        script.before["fragments"] = sleep(1)
        sender(life).send([Draft(uid="m0000001")])
        await asyncio.sleep(0.5)
        del script.before["commit"]
        with pytest.raises(ServerBusy):
            await life.namespace.create_queue("pears", {})
        queue = await life.namespace.create_queue("pears", {})
        assert queue.fragment().active_count == 0

    play(scene)


def test_a_cancelled_message_is_not_activated_meanwhile() -> None:
    async def scene(life: Life, script: Scripted) -> None:
        now = life.clock.now()
        sender(life).send([Draft(uid="m0000001", scheduled_at=now + 1_000)])
        await asyncio.sleep(0.9)
        script.after["read_scheduled"] = sleep(0.5)
        await scheduling.cancel_scheduled(life.handle("apples"), [1])
        await asyncio.sleep(1)
        fragment = life.namespace.queue("apples").fragment()
        assert (fragment.active_count, fragment.scheduled_count) == (0, 0)

    play(scene)


def test_a_deferred_message_is_taken_by_one_of_two() -> None:
    async def scene(life: Life, script: Scripted) -> None:
        number = await defer_one(life)
        script.after["read_deferred"] = sleep(0.5)
        replies = await asyncio.gather(
            *(
                deferred.receive_deferred(
                    life.handle("apples"), [number], peek_lock=False
                )
                for _ in range(2)
            ),
            return_exceptions=True,
        )
        assert [isinstance(reply, MessageNotFound) for reply in replies] == [
            False,
            True,
        ]
        fragment = life.namespace.queue("apples").fragment()
        assert fragment.deferred_count == 0

    play(scene)


def test_nothing_is_left_of_a_queue_deleted_during_a_sweep() -> None:
    async def scene(life: Life, script: Scripted) -> None:
        sweeping = asyncio.Event()

        async def take_long() -> None:
            sweeping.set()
            await asyncio.sleep(0.5)

        script.after["expired"] = take_long
        await sweeping.wait()
        # The sweep is under way; purging follows it, the next commit comes later.
        sender(life).send([Draft(uid="m0000001")])
        await delete_queue(life, "apples")
        await asyncio.sleep(5)
        disk = script.store.disk
        assert not disk.dropped
        assert not list(disk.active.between(-(1 << 63), (1 << 63) - 1))

    play(scene)


def test_a_lock_of_a_deleted_queue_is_of_no_queue() -> None:
    async def scene(life: Life, script: Scripted) -> None:
        handle = life.handle("apples")
        await delete_queue(life, "apples")
        await life.namespace.create_queue("apples", {})
        with pytest.raises(MessagingEntityNotFound):
            await locks.renew_locks(handle, [bytes(16)])

    play(scene)


def test_a_refill_for_nobody_leaves_the_window_small() -> None:
    async def scene(life: Life, script: Scripted) -> None:
        drafts = [Draft(uid=f"m{number:07}") for number in range(100)]
        sender(life).send(drafts)
        await asyncio.sleep(1)
        script.after["read_refills"] = sleep(1)
        taker = receiver(life, peek_lock=True)
        taker.give_credit(16, False)
        await asyncio.sleep(0.5)
        taker.leave()
        await asyncio.sleep(5)
        window = life.namespace.queue("apples").fragment().window
        assert 0 <= window.room()

    play(scene)


def test_a_session_that_is_over_delivers_nothing_more() -> None:
    async def scene(life: Life, script: Scripted) -> None:
        rules = replace(RULES, requires_session=True, lock_duration_ms=5_000)
        await create_queue(life, "pears", rules)
        pears = life.namespace.queue("pears")
        await asyncio.sleep(0.5)
        accept = SimulatedAccept(life, pears, "north", True, 3, 60)
        await asyncio.sleep(1)
        assert accept.receiver is not None
        # Between the end of the lock and the next tick, which notices it.
        await asyncio.sleep(4.05)
        assert accept.receiver.is_attached
        accept.receiver.give_credit(1, False)
        sender(life, "pears").send([Draft(uid="m0000001", session_id="north")])
        await asyncio.sleep(0.01)
        assert not life.held

    play(scene, tick_ms=1_000)


def test_a_deleted_topic_gets_no_subscription() -> None:
    async def scene(life: Life, script: Scripted) -> None:
        namespace = life.namespace
        await namespace.create_topic("news", {})
        script.before["commit"] = sleep(1)
        creating = asyncio.ensure_future(
            namespace.create_subscription("news", "all", {})
        )
        await asyncio.sleep(0.5)
        await namespace.delete_topic("news")
        with pytest.raises(MessagingEntityNotFound):
            await creating
        assert [entity.path for entity in namespace.entities()] == ["apples"]

    play(scene)


def test_a_queue_whose_deletion_failed_leaves_nothing_either() -> None:
    async def scene(life: Life, script: Scripted) -> None:
        sender(life).send([Draft(uid="m0000001")])
        await asyncio.sleep(1)
        script.before["commit"] = refusing(CommitFailed("once"))
        with pytest.raises(ServerBusy):
            await life.namespace.delete_queue("apples")
        del script.before["commit"]
        await asyncio.sleep(5)
        content = in_memory(script.store.disk)
        check_content(content)
        assert not content.records

    play(scene)


def test_a_session_given_up_while_the_store_is_read_expires_nothing_twice() -> None:
    async def scene(life: Life, script: Scripted) -> None:
        rules = replace(RULES, requires_session=True, default_ttl_ms=3_000)
        await create_queue(life, "pears", rules)
        pears = life.namespace.queue("pears")
        sender(life, "pears").send([Draft(uid="m0000001", session_id="north")])
        accept = SimulatedAccept(life, pears, "north", True, 3, 60)
        await asyncio.sleep(0.5)
        assert accept.receiver is not None
        script.after["read_refills"] = sleep(0.5)
        accept.receiver.give_credit(1, False)
        await asyncio.sleep(0.1)
        accept.receiver.leave()
        await asyncio.sleep(1)
        await batch_delete(life, "pears", False, 1)
        await asyncio.sleep(60)
        assert pears.fragment().active_count == 0
        assert pears.fragment().size_bytes == 0

    play(scene)


def test_dead_letters_that_cannot_go_on_let_time_pass() -> None:
    async def scene(life: Life, script: Scripted) -> None:
        # Whatever is sent there goes round until it has gone too far, and dead
        # letters go round again.
        await create_queue(life, "pears", RULES)
        around = {"forward_to": "pears", "forward_dead_lettered_messages_to": "pears"}
        sender(life, "pears").send([Draft(uid="m0000001")])
        await asyncio.sleep(1)
        script.calls.clear()
        await life.namespace.update_queue("pears", around)
        await asyncio.sleep(60)
        assert script.calls.count("commit") < 100
        assert life.namespace.queue("pears").counts().dead_letter == 1

    play(scene)


async def outlast_the_term(life: Life, script: Scripted) -> None:
    """The store does not answer until the term of its lease is over."""
    script.before["commit"] = sleep(5.5)
    sender(life).send([Draft(uid="m0000002")])
    await asyncio.sleep(5)


def test_an_owner_delivers_nothing_when_its_term_is_over() -> None:
    """Brokers, seed 61: another broker had the store, and delivered the same."""

    async def scene(life: Life, script: Scripted) -> None:
        sender(life).send([Draft(uid="m0000001")])
        await asyncio.sleep(1)
        await outlast_the_term(life, script)
        receiver(life, peek_lock=True).give_credit(1, False)
        assert not life.held
        await asyncio.sleep(1)
        assert not life.held

    play(scene, term_ms=6_000)


def test_an_owner_renews_no_lock_when_its_term_is_over() -> None:
    """Another broker may have delivered the message by then."""

    async def scene(life: Life, script: Scripted) -> None:
        sender(life).send([Draft(uid="m0000001")])
        receiver(life, peek_lock=True).give_credit(1, False)
        await asyncio.sleep(1)
        (held,) = life.held.values()
        assert held.lock is not None
        await outlast_the_term(life, script)
        with pytest.raises(ServerBusy, match="is away"):
            await locks.renew_locks(life.handle("apples"), [held.lock.token])
        await asyncio.sleep(1)

    play(scene, term_ms=6_000)
