"""A namespace and its owner on a store in memory that fails on demand.

Nothing here opens a socket. The owner's loop is a task; `settled` waits until it has
nothing left to do.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from twinbus.broker.changes import ChangeSet
from twinbus.broker.fragment_settings import NO_LIMIT
from twinbus.broker.message import Message
from twinbus.broker.message_lock import MessageLock
from twinbus.broker.receiver import Receiver
from twinbus.entities.namespace_limits import NamespaceLimits
from twinbus.entities.namespaces import Namespaces
from twinbus.owner.owners import Owners
from twinbus.owner.store_owner import StoreOwner
from twinbus.owner.turns import Turns
from twinbus.store.base import StoreError
from twinbus.store.memory import MemoryStore
from twinbus.store.memory_catalog import MemoryCatalog
from twinbus.testing.clock import ManualClock

NOW = 1_800_000_000_000


@dataclass
class Fault:
    """What a commit does instead of succeeding."""

    error: Exception
    # The commit happens all the same.
    happens: bool = False


class FaultyStore:
    """A store in memory with faults to come, first fault first."""

    def __init__(self) -> None:
        self.inner = MemoryStore()
        self.faults: list[Fault] = []
        # Errors of other operations, by name.
        self.errors: dict[str, Exception] = {}
        self.commits: list[ChangeSet] = []
        # A commit waits for this to be set; it has begun when it waits.
        self.gate = asyncio.Event()
        self.gate.set()
        self.is_committing = asyncio.Event()
        self.room_bytes = NO_LIMIT
        # What happens while ids are looked up.
        self.before_look_up: Callable[[], object] = list

    async def commit(self, changes: ChangeSet) -> None:
        self.is_committing.set()
        await self.gate.wait()
        fault = self.faults.pop(0) if self.faults else None
        if fault is None or fault.happens:
            await self.inner.commit(changes)
            self.commits.append(changes)
        if fault is not None:
            raise fault.error

    async def room(self) -> int:
        return self.room_bytes

    async def seen(self, number: int, unique_ids: list[bytes], now: int) -> set[bytes]:
        self.before_look_up()
        return await self.inner.seen(number, unique_ids, now)

    def __getattr__(self, name: str) -> Any:
        if name in self.errors:
            raise self.errors[name]
        return getattr(self.inner, name)


async def take_time() -> None:
    """Let others go on, as whoever waits for a disk does."""
    loop = asyncio.get_running_loop()
    waiting = loop.create_future()
    loop.call_soon(waiting.set_result, None)
    await waiting


class FaultyCatalog:
    """A catalog in memory that takes time, and whose next writing may fail."""

    def __init__(self) -> None:
        self.inner = MemoryCatalog()
        self.error: Exception | None = None
        self.error_of_removal: Exception | None = None
        # Called when the step of that name is done; whoever did it hears no more.
        self.after: dict[str, Callable[[], None]] = {}

    async def put(self, *entities: Any, known: int | None = None) -> None:
        error, self.error = self.error, None
        await self._done("before put")
        if error is not None:
            raise error
        await self.inner.put(*entities, known=known)
        await self._done("put")

    async def intend(self, intents: Sequence[Any]) -> None:
        await take_time()
        await self.inner.intend(intents)
        await self._done("intend")

    async def remove(self, tombstones: Sequence[Any], known: int | None = None) -> None:
        error, self.error_of_removal = self.error_of_removal, None
        await take_time()
        if error is not None:
            raise error
        await self.inner.remove(tombstones, known)
        await self._done("remove")

    async def _done(self, operation: str) -> None:
        if operation in self.after:
            self.after[operation]()
            await asyncio.get_running_loop().create_future()
        await take_time()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class World:
    """An owner and a namespace, and what they told whom. With several stores, `store`
    and `owner` are the first ones."""

    def __init__(
        self,
        *,
        name: str = "space",
        max_entities: int = 100,
        store_count: int = 1,
        **limits: Any,
    ) -> None:
        self.clock = ManualClock(NOW)
        self.stores = [FaultyStore() for _ in range(store_count)]
        self.store = self.stores[0]
        self.catalog = FaultyCatalog()
        self.fatal: list[StoreError] = []
        self._turned = asyncio.Event()
        self.pressure: list[bool] = []
        self.entropy_count = 0
        self.owners = Owners([self._owner(store) for store in self.stores])
        self.owner = next(iter(self.owners))
        self.namespaces = Namespaces(
            name,
            self.catalog,
            self.owners,
            self.clock,
            self.entropy,
            Turns(self.clock),
            rules=(),
            limits=NamespaceLimits(
                max_entities=max_entities,
                max_message_bytes=1000,
                max_entity_message_bytes=1000,
                **limits,
            ),
        )
        self.namespace = self.namespaces.default

    def _owner(self, store: FaultyStore) -> StoreOwner:
        return StoreOwner(
            store,
            self.clock,
            self.entropy,
            on_fatal=self._on_fatal,
            after_turn=self._turned.set,
            on_pressure=self.pressure.append,
        )

    def _on_fatal(self, error: StoreError) -> None:
        self.fatal.append(error)
        self._turned.set()

    def entropy(self, count: int) -> bytes:
        """Never the same bytes twice."""
        self.entropy_count += 1
        return self.entropy_count.to_bytes(5, "big") * (count // 5 + 1)

    async def start(self) -> None:
        await self.owners.open("test")
        await self.namespaces.open()
        self.owners.start()

    async def stop(self) -> None:
        await self.owners.stop()
        await self.namespaces.close()

    async def crash(self, request: asyncio.Task[Any] | None) -> None:
        """End as a process does: what was not done is not done any more. The next
        world has the disk and the catalog already."""
        disk, self.store.inner = self.store.inner, MemoryStore()
        self.catalog.inner, catalog = MemoryCatalog(), self.catalog.inner
        disk.abandon()
        await catalog.close()
        tasks = [task for task in (request, self.owner._task) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def settle_loose_ends(self) -> None:
        """What store and catalog have left to each other is tried once more."""
        self.namespace.loose_ends.tick()
        tying = self.namespace.loose_ends._tying
        if tying is not None:
            await tying

    async def settled(self) -> None:
        """Wait until the owner has done what there is to do, or can't go on."""
        while not self.fatal and (
            self.owner.must_turn or not self.owner.changes.is_empty()
        ):
            self.owner.wake()
            self._turned.clear()
            await self._turned.wait()

    async def advance(self, milliseconds: int) -> None:
        """Let time pass, and what is due happen."""
        self.clock.advance(milliseconds)
        self.owner.tick()
        await self.settled()


def message(body: bytes = b"\x00\x53\x77\xa1\x02hi", ttl_ms: int = 0) -> Message:
    """A message as a sender would have it."""
    return Message(body, 4 << 2, ttl_ms, 0)


class Client(Receiver):
    """Takes as many messages as it is told to."""

    def __init__(self, *, peek_lock: bool = True, wanted: int = 0) -> None:
        super().__init__(7, peek_lock)
        self.wanted = wanted
        self.locks: list[MessageLock] = []
        self.removed: list[Message] = []
        self.served_count = 0

    def capacity(self) -> int:
        return self.wanted

    def deliver_locked(self, locks: list[MessageLock]) -> None:
        self.wanted -= len(locks)
        self.locks += locks

    def deliver_removed(self, messages: list[Message]) -> None:
        self.wanted -= len(messages)
        self.removed += messages

    def served(self) -> None:
        self.served_count += 1

    def session_lost(self) -> None:
        raise AssertionError("it has no session")
