"""One life of a simulated bus: from the opening of its store to its stop or crash.

The owner, the namespace and the fragments are the real ones. A crash drops all of them
at once, in any state. The next life begins with the contents of the disk.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from random import Random
from typing import Any, Final

from simulator.auditor import Auditor
from simulator.caller import TrustedCaller
from simulator.catalog import FaultyCatalog
from simulator.clock import SimulatedClock
from simulator.links import Held, SimulatedReceiver, SimulatedSender
from simulator.session_links import SimulatedAccept
from simulator.store import FaultyStore
from simulator.trace import Trace
from simulator.transactions import SimulatedTransaction
from twinbus.auth.claims import Claim
from twinbus.broker.entity_path import EntityPath
from twinbus.broker.fragment import DEAD_LETTER, MAIN
from twinbus.entities.entity import Entity
from twinbus.entities.namespace_limits import NamespaceLimits
from twinbus.entities.namespaces import Namespaces
from twinbus.entities.queue import Queue
from twinbus.entities.subscription import Subscription
from twinbus.errors import (
    InternalError,
    MessageLockLost,
    ServiceBusError,
    SessionLockLost,
)
from twinbus.limits import ENTITIES_PER_NAMESPACE, MESSAGE_BYTES
from twinbus.operations.bulk.bulk_entities import BulkEntities
from twinbus.operations.entity_handle import EntityHandle, open_entity
from twinbus.owner.owners import Owners
from twinbus.owner.store_owner import StoreOwner
from twinbus.owner.turns import Turns
from twinbus.store.base import StoreError

_SMALL_BYTES: Final = 1_000

_LOCKED_BYTES: Final = 600
"""So small that the bytes of some locked messages are dropped from memory."""


class Life:
    """A running bus, and the clients that are connected to it."""

    def __init__(
        self,
        store: FaultyStore,
        catalog: FaultyCatalog,
        clock: SimulatedClock,
        random: Random,
        auditor: Auditor,
        trace: Trace,
        *,
        tick_ms: int,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self.store = store
        self.catalog = catalog
        self.clock = clock
        self.auditor = auditor
        self._trace = trace
        self._tick_ms = tick_ms
        self._on_failure = on_failure
        self.owner = StoreOwner(
            store,
            clock,
            random.randbytes,
            on_fatal=self._on_fatal,
            after_turn=_nothing,
            on_pressure=_ignore,
        )
        self.owners = Owners([self.owner])
        self.namespaces = Namespaces(
            "simulated",
            catalog,
            self.owners,
            clock,
            random.randbytes,
            Turns(clock),
            rules=(),
            limits=NamespaceLimits(
                max_entities=ENTITIES_PER_NAMESPACE,
                max_entity_message_bytes=MESSAGE_BYTES,
                max_message_bytes=MESSAGE_BYTES,
            ),
        )
        self.namespace = self.namespaces.default
        self.bulk = BulkEntities(self.namespace)
        self.is_alive = True
        # Set when it crashes.
        self.ended = asyncio.Event()
        # Set when the owner reported a fatal error.
        self.fatal: StoreError | None = None
        self.senders: list[SimulatedSender] = []
        self.receivers: list[SimulatedReceiver] = []
        self.accepts: list[SimulatedAccept] = []
        self.transactions: list[SimulatedTransaction] = []
        self.held: dict[bytes, Held] = {}
        self.requests: set[asyncio.Task[None]] = set()
        self._handles: dict[tuple[str, bool], EntityHandle] = {}
        self._ticking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self.owners.open("simulated")
        self.owner.table.bodies.limit_bytes = _LOCKED_BYTES
        await self.namespaces.open()
        self.owner.start()
        self.namespaces.start()
        self._watch(self._owner_task())
        self._ticking = asyncio.create_task(self._tick_for_ever())
        self._watch(self._ticking)

    def _owner_task(self) -> asyncio.Task[None]:
        task = self.owner._task
        assert task is not None
        return task

    def _watch(self, task: asyncio.Task[None]) -> None:
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self.requests.discard(task)
        if not task.cancelled() and task.exception() is not None:
            error = task.exception()
            assert error is not None
            self._on_failure(error)

    async def _tick_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._tick_ms / 1000)
            now = self.tell(None)
            self.owner.tick()
            self.namespaces.tick(now)
            for transaction in self.transactions:
                transaction.tick(now)

    def _on_fatal(self, error: StoreError) -> None:
        self.fatal = error

    # --- for the clients ------------------------------------------------------

    def tell(self, what: str | None) -> int:
        """Tell the auditor the time, and add the event to the trace."""
        now = self.clock.now()
        self.auditor.tell_time(now)
        if what is not None:
            self._trace.add(now, what)
        return now

    def has_queue(self, path: str) -> bool:
        return any(entity.path == path for entity in self.holders())

    def holders(self) -> list[Entity]:
        """Entities that hold messages: queues and subscriptions."""
        kinds = (Queue, Subscription)
        return [item for item in self.namespace.entities() if isinstance(item, kinds)]

    def shrink(self, path: str) -> None:
        """Give the entity a quota that is smaller than a description allows."""
        entity = self.namespace.entity(path)
        settings = replace(entity.settings(), max_size_bytes=_SMALL_BYTES)
        self.owner.table.update(entity.record.generation, settings)

    def hold(self, held: Held) -> None:
        self.held[held.token] = held

    def settle_failed(self, held: Held, kind: str, error: ServiceBusError) -> None:
        """Tell the auditor why a settlement failed."""
        if isinstance(error, InternalError):
            self.auditor.settle_unknown(held.token, held.uid)
        else:
            self.auditor.settle_refused(
                held.token,
                held.uid,
                kind,
                lock_lost=isinstance(error, MessageLockLost | SessionLockLost),
            )

    def handle(self, path: str, dead_letter: bool = False) -> EntityHandle:
        """A handle of the entity. Clients keep it for a long time."""
        found = self._handles.get((path, dead_letter))
        if found is None:
            found = self.open(path, TrustedCaller(f"client of {path}"), dead_letter)
            self._handles[path, dead_letter] = found
        return found

    def open(
        self, path: str, caller: TrustedCaller, dead_letter: bool = False
    ) -> EntityHandle:
        sub_queue = DEAD_LETTER if dead_letter else MAIN
        wanted = EntityPath(entity=path, sub_queue=sub_queue)
        return open_entity(self.namespace, wanted, caller, Claim.LISTEN)

    def reconnect(self) -> None:
        """Drop the handles, as a client does when an entity is deleted."""
        self._handles.clear()

    def request(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a request concurrently with everything else."""
        task = asyncio.create_task(work)
        self.requests.add(task)
        self._watch(task)
        return task

    def has_unanswered(self) -> bool:
        return (
            bool(self.requests)
            or any(sender.is_waiting() for sender in self.senders)
            or any(receiver.confirmations.is_waiting() for receiver in self.receivers)
            or any(transaction.is_committing for transaction in self.transactions)
        )

    # --- the end --------------------------------------------------------------

    def die(self) -> None:
        """Crash: drop everything. Open requests get no reply."""
        self.is_alive = False
        self.ended.set()
        self.store.is_dead = True
        self.catalog.is_dead = True
        for sender in self.senders:
            sender.lost()
        for receiver in self.receivers:
            receiver.lost()
        for transaction in self.transactions:
            transaction.lost()
        self.give_up_waiting()
        self.auditor.locks_lost()

    def give_up_waiting(self) -> None:
        """Stop all waiting for sessions."""
        for accept in self.accepts:
            accept.give_up()

    async def bury(self) -> None:
        """Cancel the tasks of a crashed bus."""
        await self.hang_up()
        await self.namespace.loose_ends.stop()
        if self._ticking is not None:
            await _cancel([self._ticking, self._owner_task()])

    async def hang_up(self) -> None:
        """Clients leave without waiting for replies; their requests stay in effect."""
        await _cancel(list(self.requests))

    async def stop(self) -> None:
        """Stop without a crash."""
        if self._ticking is not None:
            self._ticking.cancel()
        self.is_alive = False
        await self.owner.stop()
        await self.namespaces.close()
        self.auditor.locks_lost()


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _nothing() -> None:
    """Connections would write now; simulated clients are called directly."""


def _ignore(is_high: bool) -> None:
    """Connections would stop reading; a simulated bus has none."""
