"""A world: one bus, its disk, its clients and its faults, all from one seed.

    run_world(17)              the world of seed 17, in a few milliseconds
    python -m simulator 17     the same, and prints what happens

First the clients send random requests while faults occur. Then the faults end, and the
auditor checks the messages and the counters, whether all messages can be received, and
whether everything is the same after a restart.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from simulator import requests
from simulator.agreement import check_agreement
from simulator.broker_full_world import BrokerFullWorld
from simulator.broker_topics_world import BrokerTopicsWorld
from simulator.brokers_world import BrokersWorld
from simulator.catalog import FaultyCatalog
from simulator.clock import SimulatedClock
from simulator.disk import Disk, DiskInMemory, DiskOfFiles
from simulator.duplicate_workload import DuplicateWorkload
from simulator.forwarding_workload import ForwardingWorkload
from simulator.life import Life
from simulator.links import ClientSettlement, SimulatedReceiver
from simulator.loop import NothingToWaitFor, VirtualLoop, run_virtually
from simulator.neighbour import Neighbour
from simulator.outbox_full_world import OutboxFullWorld
from simulator.outbox_world import OutboxWorld
from simulator.pair_world import PairWorld
from simulator.partitions_world import PartitionsWorld
from simulator.process_loop import ProcessLoop
from simulator.range_workload import RangeWorkload
from simulator.session_ending import (
    check_states,
    drain_sessions,
    held_session,
)
from simulator.session_workload import SESSION_IDS, SessionWorkload
from simulator.sighting import Sighting, Violation
from simulator.store import Faults, FaultyStore
from simulator.store_check import check_content
from simulator.stores_world import StoresWorld
from simulator.topic_requests import list_topics
from simulator.topic_workload import TopicWorkload
from simulator.trace import Trace
from simulator.workload import Workload
from twinbus.store.base import Store, StoreError

_EVERYTHING: Final = 250
"""More messages than a world has, and the maximum of one peek."""

_LONGEST_LOCK_SECONDS: Final = 120

_PAUSE_SECONDS: Final = 10
"""Longer than a bus waits before it writes to a full store again."""

_WORKLOADS: Final[dict[str, type[Workload]]] = {
    "queues": Workload,
    "sessions": SessionWorkload,
    "duplicates": DuplicateWorkload,
    "topics": TopicWorkload,
    "forwarding": ForwardingWorkload,
    "ranges": RangeWorkload,
}
"""What clients do, by kind of world. These kinds have one bus."""

_PAIRS: Final = "pairs"

_STORES: Final = "stores"

_PARTITIONS: Final = "partitions"

_OUTBOX: Final = "outbox"

_OUTBOX_FULL: Final = "outbox-full"

_BROKERS: Final = "brokers"

_BROKER_TOPICS: Final = "broker-topics"

_BROKER_FULL: Final = "broker-full"

_WORLDS_OF_BROKERS: Final = {
    _BROKERS: BrokersWorld,
    _BROKER_TOPICS: BrokerTopicsWorld,
    _BROKER_FULL: BrokerFullWorld,
}

KINDS: Final = (
    *(*_WORKLOADS, _PAIRS, _STORES, _PARTITIONS, _OUTBOX, _OUTBOX_FULL),
    *_WORLDS_OF_BROKERS,
)

IN_MEMORY: Final = tuple(_WORLDS_OF_BROKERS)
"""Kinds whose stores are never SQLite files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a world."""

    seed: int
    trace: Trace
    violation: BaseException | None


def run_world(
    seed: int,
    *,
    kind: str = "queues",
    folder: Path | None = None,
    plant: Callable[[Store], Store] | None = None,
) -> Outcome:
    """Run the world of a seed. `kind` is one of `KINDS`.

    With a folder, its disk consists of SQLite files. `plant` wraps the store in one
    with a fault, to see whether the auditor finds it.
    """
    loop: VirtualLoop = ProcessLoop() if kind in _WORLDS_OF_BROKERS else VirtualLoop()
    world: (
        World | PairWorld | StoresWorld | PartitionsWorld | OutboxWorld | BrokersWorld
    )
    if kind in _WORLDS_OF_BROKERS:
        assert folder is None
        assert plant is None
        assert isinstance(loop, ProcessLoop)
        world = _WORLDS_OF_BROKERS[kind](seed, loop)
    elif kind == _STORES:
        world = StoresWorld(seed, loop, folder, plant)
    elif kind == _PARTITIONS:
        world = PartitionsWorld(seed, loop, folder, plant)
    elif kind == _OUTBOX:
        world = OutboxWorld(seed, loop, folder, plant)
    elif kind == _OUTBOX_FULL:
        world = OutboxFullWorld(seed, loop, folder, plant)
    elif kind == _PAIRS:
        world = PairWorld(seed, loop, folder, plant)
    else:
        world = World(seed, loop, _WORKLOADS[kind], folder, plant)
    logger = logging.getLogger("twinbus")
    was_disabled, logger.disabled = logger.disabled, True
    levels = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        run_virtually(loop, world.live())
    except (AssertionError, NothingToWaitFor) as error:
        return Outcome(seed=seed, trace=world.trace, violation=error)
    finally:
        logging.disable(levels)
        logger.disabled = was_disabled
    return Outcome(seed=seed, trace=world.trace, violation=None)


class World:
    """Everything that exists for one seed."""

    def __init__(
        self,
        seed: int,
        loop: VirtualLoop,
        workload: type[Workload],
        folder: Path | None,
        plant: Callable[[Store], Store] | None,
    ) -> None:
        self._random = Random(seed)
        self.trace = Trace()
        self.auditor = workload.auditor()
        self.clock = SimulatedClock(loop)
        self._plant = plant
        self._disk: Disk = DiskInMemory()
        if folder is not None:
            self._disk = DiskOfFiles(folder, Random(seed))
        self._faults = _faults(self._random, is_torn=folder is not None)
        self._workload = workload(Random(self._random.random()), self.auditor)
        self._pace_ms = self._random.choice((1, 50, 1_000, 8_000))
        self._tick_ms = self._random.choice((100, 100, 1_000, 4_000))
        self._jumps = self._random.choice((0.0, 0.0, 0.01))
        # Step at which another owner takes the store; 0: never.
        self._take_over_at = 0
        if folder is None and self._random.random() < 0.2:
            self._take_over_at = self._random.randint(5, 30)
        self._neighbour = Neighbour()
        self._is_torn = False
        self._failure: BaseException | None = None
        self.life = self._new_life()

    def _new_life(self) -> Life:
        store: Store = self._disk.store()
        self._raw_store = store
        if self._plant is not None:
            store = self._plant(store)
        random = Random(self._random.random())
        catalog = self._disk.catalog()
        return Life(
            FaultyStore(store, self._faults, random, self),
            FaultyCatalog(catalog, self._faults, random, self),
            self.clock,
            Random(self._random.random()),
            self.auditor,
            self.trace,
            tick_ms=self._tick_ms,
            on_failure=self._fail,
        )

    # --- what can happen to a bus ---------------------------------------------

    def note(self, what: str) -> None:
        self.trace.add(self.clock.now(), what)

    def crash(self, how: str, *, torn: bool = False) -> None:
        if self.life.is_alive:
            self.life.tell(f"CRASH {how}")
            self._is_torn = torn
            self.life.die()

    def about_to_commit(self) -> None:
        self._disk.mark()

    def commit_did_not_happen(self) -> None:
        self.auditor.locks_lost()
        self.auditor.sessions.is_void = True

    def bus_has_started_over(self) -> None:
        self.auditor.locks_lost()

    def store_calls_overlap(self) -> None:
        self._fail(Violation("two operations of the store overlap"))

    def is_going_in_circles(self) -> None:
        self._fail(Violation("the bus calls its store again and again in no time"))
        self.crash("to get out of a circle")

    def _fail(self, error: BaseException) -> None:
        if self._failure is None:
            self.note(f"FAILURE {error!r}")
            self._failure = error

    def _check(self) -> None:
        if self._failure is not None:
            if isinstance(self._failure, AssertionError):
                raise self._failure
            raise AssertionError(repr(self._failure)) from self._failure
        if self.life.is_alive and self.life.fatal is not None:
            raise Violation(f"the bus gave up: {self.life.fatal}")

    # --- the story ------------------------------------------------------------

    async def live(self) -> None:
        await self._neighbour.settle_in(self._disk, self.clock.now())
        await self._begin()
        for step in range(self._random.choice((30, 80, 160))):
            if not self.life.is_alive:
                await self._revive()
            if step + 1 == self._take_over_at:
                await self._take_over()
            self._workload.step(self.life)
            await self._let_time_pass()
            self._check()
        await self._conclude()

    async def _begin(self) -> None:
        starting = asyncio.ensure_future(self.life.start())
        ending = asyncio.ensure_future(self.life.ended.wait())
        await asyncio.wait((starting, ending), return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        if not self.life.is_alive:
            # It crashed during its start, which never ends now.
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            await self._revive()
            return
        try:
            await starting
        except StoreError as error:
            raise Violation(f"the bus does not start: {error}") from error
        paths = [queue.path for queue in self.life.holders()]
        self.life.tell(f"the bus is up with {len(paths)} queues")
        self.auditor.queues_listed(paths)
        list_topics(self.life)
        for path in paths:
            if self.auditor.is_small(path):
                self.life.shrink(path)

    async def _revive(self) -> None:
        old = self.life
        await self._disk.crash(self._raw_store, old.catalog.catalog, torn=self._is_torn)
        await old.bury()
        self.life = self._new_life()
        await self._begin()

    async def _take_over(self) -> None:
        """Another owner opens the store while this one runs and has clients."""
        old = self.life
        assert isinstance(self._disk, DiskInMemory)
        old.tell("another owner takes the store")
        for receiver in old.receivers:
            # Locks are not durable: they end with the lease, and so do links.
            if receiver.peek_lock:
                receiver.leave()
        # The catalog has no lease yet, so requests to it must end here.
        await old.hang_up()
        old.give_up_waiting()
        self.auditor.locks_lost()
        self._disk.expropriate()
        await old.catalog.catalog.close()
        self.life = self._new_life()
        await self._begin()
        await self._outlive(old)

    async def _outlive(self, old: Life) -> None:
        """Send requests to the former owner, which must refuse all of them."""
        for sender in old.senders:
            if sender.is_attached and self.auditor.knows_queue(sender.path):
                sender.send(self._workload.drafts(1))
        for held in list(old.held.values()):
            if held.receiver is not None:
                held.receiver.settle(held, ClientSettlement(kind="complete"))
        await asyncio.sleep(self._random.choice((0, 1, 10)))
        old.die()
        await old.bury()

    async def _let_time_pass(self) -> None:
        random = self._random
        self._perhaps_jump()
        if random.random() < 0.5:
            await asyncio.sleep(0)
        else:
            await asyncio.sleep(random.expovariate(1.0) * self._pace_ms / 1000)
        if self._faults.crash_after > 0 and random.random() < 0.005:
            self.crash("at any moment")

    def _perhaps_jump(self) -> None:
        if self._random.random() < self._jumps:
            by_ms = self._random.choice((-40_000, -3_000, 3_000, 40_000))
            self.life.tell(f"the clock jumps by {by_ms} ms")
            self.clock.jump(by_ms)
            self.life.tell(None)

    # --- the end --------------------------------------------------------------

    async def _conclude(self) -> None:
        """Without faults: check that everything is correct and stays so."""
        self.note("no more faults")
        self._faults = Faults()
        self.life.store.faults = self.life.catalog.faults = self._faults
        if not self.life.is_alive:
            await self._revive()
        await self._settle_down()
        await asyncio.sleep(_PAUSE_SECONDS)
        await self._compare()
        await asyncio.sleep(_LONGEST_LOCK_SECONDS)
        self._check()
        for path in self.auditor.paths():
            await self._drain(path, False)
            await self._drain(path, True)
        await self._take_deferred()
        await self._compare()
        await self._look_at_sessions()
        await self._restart()
        await self._compare()
        await self._look_at_sessions()
        await self.life.stop()
        self._check()

    async def _settle_down(self) -> None:
        for receiver in self.life.receivers:
            receiver.leave()
        self.life.give_up_waiting()
        for transaction in self.life.transactions:
            transaction.roll_back()
        for _ in range(100):
            await asyncio.sleep(1)
            self._check()
            if not self.life.has_unanswered():
                break
        else:
            raise Violation("a request was never answered")
        for receiver in self.life.receivers:
            if not receiver.peek_lock:
                self.auditor.taker_left(receiver.path, receiver.dead_letter, 0)

    async def _compare(self) -> None:
        self._check()
        listed = sorted(queue.path for queue in self.life.holders())
        self.auditor.queues_listed(listed)
        list_topics(self.life)
        self.life.reconnect()
        for path in listed:
            self.life.tell(f"what {path} holds")
            seen = await self._content(path, False) + await self._content(path, True)
            counts = requests.counts(self.life, path)
            self.auditor.concluded(path, seen, counts)
        self.auditor.all_concluded()
        await self._look_behind()

    async def _look_behind(self) -> None:
        """Check that the store and the sums in memory are consistent."""
        for _ in range(60):
            if self.life.owner.table.purging():
                await asyncio.sleep(1)
        content = self._disk.content()
        check_content(content)
        self._neighbour.check(content)
        await check_agreement(self.life)
        requests.check_quotas(self.life)

    async def _content(self, path: str, dead_letter: bool) -> list[Sighting]:
        """All messages, read in several portions if they are large."""
        seen: list[Sighting] = []
        start = 0
        while portion := await requests.peek(
            self.life, path, dead_letter, start, _EVERYTHING
        ):
            seen += portion
            start = portion[-1].sequence_number + 1
        return seen

    async def _drain(self, path: str, dead_letter: bool) -> None:
        """Receive and complete all messages."""
        life = self.life
        if not self.auditor.may_receive(path, dead_letter):
            return
        if self.auditor.sessions.requires_session(path) and not dead_letter:
            await drain_sessions(life, path)
            self.auditor.drained(path, dead_letter)
            return
        queue = life.namespace.entity(path)
        receiver = SimulatedReceiver(life, queue, dead_letter, True, 1_000_000)
        life.receivers.append(receiver)
        life.held.clear()
        receiver.give_credit(_EVERYTHING, False)
        while True:
            await asyncio.sleep(1)
            self._check()
            if not life.held:
                break
            for held in list(life.held.values()):
                receiver.settle(held, ClientSettlement(kind="complete"))
            life.held.clear()
        receiver.leave()
        self.auditor.drained(path, dead_letter)

    async def _take_deferred(self) -> None:
        """Check that all deferred messages can be received by number."""
        for group in ("main", "dead"):
            known = self.auditor.known_numbers(group, deferred=True)
            for path, uid, number in known:
                async with self._session_of(path, uid, group):
                    await requests.receive_deferred(
                        self.life, path, group == "dead", {uid: number}, False
                    )
                self._check()

    def _session_of(
        self, path: str, uid: str, group: str
    ) -> AbstractAsyncContextManager[object]:
        session_id = self.auditor.session_of(uid)
        if group == "dead" or session_id is None:
            return nullcontext()
        return held_session(self.life, path, session_id)

    async def _look_at_sessions(self) -> None:
        for path in self.auditor.paths():
            if self.auditor.sessions.requires_session(path):
                await check_states(self.life, path, SESSION_IDS)
                self._check()

    async def _restart(self) -> None:
        await self.life.stop()
        self._check()
        self.life = self._new_life()
        await self._begin()


def _faults(random: Random, *, is_torn: bool) -> Faults:
    """Some worlds have no faults, some have a few kinds, some have all."""
    rates = {
        "crash_before": 0.01,
        "crash_after": 0.02,
        "torn": 0.02 if is_torn else 0.0,
        "failed": 0.03,
        "full": 0.02,
        "unknown": 0.04,
        "slow_commit": 0.3,
        "slow_read": 0.3,
    }
    share = random.choice((0.0, 0.2, 0.5, 1.0))
    chosen = {name: rate for name, rate in rates.items() if random.random() < share}
    return Faults(**chosen)
