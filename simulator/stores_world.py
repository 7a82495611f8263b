"""A world with two stores in one process, one of which goes away and comes back.

Queues are spread over both. While the first store is away its queues refuse; those of
the second must notice nothing: no refusal, no late answer, no message lost, doubled or
out of order. When the first is back, all that it had accepted is there.

In some worlds the bus is stopped, and starts again while the first store is away: its
queues are there, refuse, and are completed when the store comes.

In memory the first store lends its lease for a term. While it is away, another owner
takes the lease when the term is over; from then on nothing may be delivered.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from simulator.loop import VirtualLoop
from simulator.several_stores import (
    PATIENCE_SECONDS,
    TICK_SECONDS,
    SeveralStores,
    made_store,
)
from simulator.sighting import Violation
from twinbus.broker import settlement
from twinbus.broker.commit_listener import CommitListener
from twinbus.broker.fragment import Fragment
from twinbus.broker.message import Message
from twinbus.broker.message_lock import MessageLock
from twinbus.broker.receiver import Receiver
from twinbus.encoding.incoming import read_message
from twinbus.errors import InternalError, ServerBusy, ServiceBusError
from twinbus.links.sending import accept, check_room
from twinbus.owner.owner_state import OwnerState
from twinbus.owner.store_owner import owner_of
from twinbus.store.base import CommitUnknown, Store, StoreError, StoreInUse
from twinbus.store.lease import StoreLease
from twinbus.store.memory import MemoryDisk, MemoryStore
from twinbus.store.memory_catalog import MemoryCatalog
from twinbus.store.opening import open_store

_QUEUES: Final = 4
_LATE_SECONDS: Final = 0.5
"""Nothing keeps the second store from answering at once."""

_LEASE_TERM_MS: Final = 3_000


class LeavingStore:
    """A store that is away from time to time; the rest is the real one."""

    def __init__(self, store: Store, random: Random) -> None:
        self._store = store
        self._random = random
        self.is_away = False
        # The commit under way when it left is not answered.
        self._leaves_in_commit = False

    def leave(self) -> None:
        """Now, or in the middle of the next commit."""
        self._leaves_in_commit = self._random.random() < 0.5
        self.is_away = not self._leaves_in_commit

    def come_back(self) -> None:
        self.is_away = self._leaves_in_commit = False

    async def commit(self, changes: Any) -> None:
        self.check()
        if not self._leaves_in_commit:
            await self._store.commit(changes)
            return
        self._leaves_in_commit, self.is_away = False, True
        if self._random.random() < 0.5:
            await self._store.commit(changes)
        raise CommitUnknown("the store left")

    @property
    def location(self) -> str:
        return "the store that leaves"

    @property
    def lease(self) -> "LeavingLease":
        return LeavingLease(self, self._store.lease)

    def check(self) -> None:
        """Raises StoreError while it is away."""
        if self.is_away:
            raise StoreError("the store is away")

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def called(*given: Any, **named: Any) -> Any:
            self.check()
            return await found(*given, **named)

        return called


class LeavingLease:
    """The lease of a store that is away from time to time."""

    def __init__(self, store: LeavingStore, lease: StoreLease) -> None:
        self._store = store
        self._lease = lease

    @property
    def term_ms(self) -> int:
        return self._lease.term_ms

    async def take(self, owner: str, now: int) -> int:
        self._store.check()
        return await self._lease.take(owner, now)

    async def renew(self, now: int) -> None:
        self._store.check()
        await self._lease.renew(now)

    async def give_back(self) -> None:
        self._store.check()
        await self._lease.give_back()


@dataclass(slots=True)
class Account:
    """What became of the messages of one queue."""

    # Bodies in the order in which they were accepted.
    accepted: list[bytes] = field(default_factory=list)
    # Nobody knows whether these were accepted.
    unknown: set[bytes] = field(default_factory=set)
    completed: set[bytes] = field(default_factory=set)
    # Nobody knows whether these were completed.
    perhaps: set[bytes] = field(default_factory=set)


class QueueClient(CommitListener):
    """Sends to one queue, receives from it, and keeps account."""

    def __init__(
        self, world: "StoresWorld", fragment: Fragment, is_steady: bool
    ) -> None:
        super().__init__()
        self._world = world
        self.fragment = fragment
        # Its store never leaves.
        self.is_steady = is_steady
        self.account = Account()
        self._sent: list[bytes] = []
        self._waiting: dict[int, float] = {}
        self.held: list[MessageLock] = []
        self.path = fragment.settings.path
        self.receiver = QueueReceiver(self)
        fragment.home.join(fragment, self.receiver)

    def move_to(self, fragment: Fragment) -> None:
        """The bus was started again: no lock holds."""
        self.held.clear()
        self.fragment = fragment
        self.receiver = QueueReceiver(self)
        fragment.home.join(fragment, self.receiver)

    # --- sending --------------------------------------------------------------

    def send(self, body: bytes) -> None:
        now, at = self._world.clock.now(), len(self._sent)
        self._sent.append(body)
        self._waiting[at] = self._world.time()
        message = read_message(b"\x00\x53\x75\xa0" + bytes([len(body)]) + body)
        try:
            check_room(self.fragment, len(message.raw), now)
            accept(self.fragment, message, 1, now)
            self.note(self.fragment.home, at)
            self.fragment.home.wake()
        except ServiceBusError as error:
            self.failed([at], error)

    def committed(self, items: list[int]) -> None:
        for at in items:
            del self._waiting[at]
            self.account.accepted.append(self._sent[at])

    def failed(self, items: list[int], error: ServiceBusError) -> None:
        self.refused(error)
        for at in items:
            del self._waiting[at]
            if isinstance(error, InternalError):
                self.account.unknown.add(self._sent[at])

    def refused(self, error: ServiceBusError) -> None:
        if self.is_steady:
            self._world.fail(Violation(f"a queue of the other store: {error!r}"))
        elif not isinstance(error, ServerBusy | InternalError):
            self._world.fail(Violation(f"no reason to try again: {error!r}"))

    def check_answers(self) -> None:
        """Raises Violation if a steady store is late."""
        oldest = min(self._waiting.values(), default=self._world.time())
        if self.is_steady and self._world.time() - oldest > _LATE_SECONDS:
            raise Violation("a queue of the other store waits for its answer")

    def is_waiting(self) -> bool:
        return bool(self._waiting)

    # --- receiving ------------------------------------------------------------

    def receive(self, count: int) -> None:
        self.receiver.wanted += count
        self.fragment.home.offer_capacity(self.fragment, self.receiver)

    async def peek(self) -> None:
        """Read as a request does."""
        owner, fragment = owner_of(self.fragment), self.fragment
        try:
            await owner.store.browse(fragment.number, 0, 5, 1_000)
        except ServerBusy as error:
            self.refused(error)
            if error.entity_path != fragment.settings.path:
                self._world.fail(Violation(f"the entity is not named: {error!r}"))
        except StoreError as error:
            self._world.fail(Violation(f"a request is told {error!r}"))

    def delivered(self, locks: list[MessageLock]) -> None:
        if not self.is_steady and self._world.rival_serves:
            self._world.fail(Violation("another owner has the lease"))
        if owner_of(self.fragment).state is not OwnerState.SERVING:
            self._world.fail(Violation("a store that is away delivers messages"))
        self.held += locks

    def settle(self) -> None:
        """The oldest message that is held."""
        if not self.held:
            return
        lock, now = self.held.pop(0), self._world.clock.now()
        home, body = self.fragment.home, body_of(lock.message)
        if not self.fragment.holds(lock, now):
            if self.is_steady and lock.is_live(now):
                raise Violation("a lock of the other store was lost")
            return
        settlement.complete(self.fragment, lock, 1, now, home.changes)
        Completion(self, body).note(home, 0)
        home.wake()


class Completion(CommitListener):
    """Waits for the commit of one settlement."""

    def __init__(self, client: QueueClient, body: bytes) -> None:
        super().__init__()
        self._client = client
        self._body = body

    def committed(self, items: list[int]) -> None:
        self._client.account.completed.add(self._body)

    def failed(self, items: list[int], error: ServiceBusError) -> None:
        self._client.refused(error)
        if isinstance(error, InternalError):
            self._client.account.perhaps.add(self._body)


class QueueReceiver(Receiver):
    """Takes as many messages as it is told to, under locks."""

    def __init__(self, client: QueueClient) -> None:
        super().__init__(1, True)
        self._client = client
        self.wanted = 0

    def capacity(self) -> int:
        return self.wanted

    def deliver_locked(self, locks: list[MessageLock]) -> None:
        self.wanted -= len(locks)
        self._client.delivered(locks)

    def deliver_removed(self, messages: list[Message]) -> None:
        raise AssertionError("it receives under locks")

    def served(self) -> None:
        pass

    def session_lost(self) -> None:
        raise AssertionError("it has no session")


def body_of(message: Message) -> bytes:
    return bytes(message.raw[-8:])


class StoresWorld(SeveralStores):
    """Everything that exists for one seed."""

    def __init__(
        self,
        seed: int,
        loop: VirtualLoop,
        folder: Path | None,
        plant: Callable[[Store], Store] | None,
    ) -> None:
        super().__init__(seed, loop)
        self._disk = MemoryDisk(_LEASE_TERM_MS) if folder is None else None
        stores = [
            self._store(folder, "first", self._disk, plant),
            self._store(folder, "second", None, plant),
        ]
        # Has the lease of the first store while that is away.
        self._rival: MemoryStore | None = None
        self._leaving = LeavingStore(stores[0], Random(self._random.random()))
        self._steady = stores[1]
        self._catalog = MemoryCatalog()
        self._make_bus([self._leaving, self._steady], self._catalog)
        self._clients: list[QueueClient] = []
        self._count = 0

    def _store(
        self,
        folder: Path | None,
        name: str,
        disk: MemoryDisk | None,
        plant: Callable[[Store], Store] | None,
    ) -> Store:
        store = made_store(folder, name, disk)
        return store if plant is None else plant(store)

    # --- the story ------------------------------------------------------------

    async def live(self) -> None:
        await self._start()
        await self._make_queues()
        await self._steps()
        if self._random.random() < 0.5:
            await self._restart_without_first()
            await self._steps()
        await self._conclude()
        await self._stop()

    async def _steps(self) -> None:
        for _ in range(self._random.choice((40, 120))):
            await self._step()

    async def _remembered(self) -> dict[str, bytes]:
        return await self.namespaces.remembered_stores()

    async def _restart_without_first(self) -> None:
        """A start while the first store is away."""
        await self._bring_back()
        await self._until(self._is_calm, "the first store did not come back")
        # What is told to the catalog after a creation.
        await asyncio.sleep(2)
        await self._stop()
        self._check()
        self._tell("the bus starts without the first store")
        self._leaving.is_away = True
        self._make_bus([self._leaving, self._steady], self._catalog)
        await self._start()
        for client in self._clients:
            self._check_start(client)
        await asyncio.sleep(self._random.choice((0, 0.3, 20)))
        await self._bring_back()
        await self._until(self._is_calm, "the first store was not taken in")
        for client in self._clients:
            if not client.is_steady:
                client.move_to(self.namespace.queue(client.path).fragment())

    def _check_start(self, client: QueueClient) -> None:
        """Queues of the steady store are served at once, the others not at all."""
        queue = self.namespace.queue(client.path)
        if client.is_steady:
            client.move_to(queue.fragment())
            return
        try:
            queue.fragment()
        except ServerBusy as error:
            if client.path not in str(error):
                raise Violation(f"the queue is not named: {error!r}") from error
        else:
            raise Violation("there is a fragment of a store that never was there")

    async def _make_queues(self) -> None:
        """Each goes to the store with the fewest fragments."""
        for number in range(_QUEUES):
            queue = await self.namespace.create_queue(f"queue-{number}", {})
            fragment = queue.fragment()
            _, steady = self._owners
            client = QueueClient(self, fragment, fragment.home is steady)
            self._clients.append(client)
        if len({client.is_steady for client in self._clients}) != 2:
            raise Violation("all queues are in one store")

    async def _step(self) -> None:
        random = self._random
        client = random.choice(self._clients)
        choice = random.random()
        if choice < 0.45:
            self._count += 1
            client.send(f"{self._count:08}".encode())
        elif choice < 0.65:
            client.receive(random.randint(1, 3))
        elif choice < 0.85:
            client.settle()
        elif choice < 0.9:
            await client.peek()
        elif self._leaving.is_away:
            await self._bring_back()
        else:
            self._tell("the first store leaves")
            self._leaving.leave()
        await asyncio.sleep(random.choice((0, 0, 0.01, 0.3, 2.0)))
        await self._let_rival_try()
        self._check()

    @property
    def rival_serves(self) -> bool:
        return self._rival is not None

    async def _let_rival_try(self) -> None:
        """Another process reaches the store that is away for this one."""
        if self._disk is None or self._rival is not None or not self._leaving.is_away:
            return
        rival = MemoryStore(self._disk)
        with contextlib.suppress(StoreInUse):
            await open_store(rival, "rival", self.clock.now())
            self._tell("another owner has taken the first store")
            self._rival = rival

    async def _bring_back(self) -> None:
        self._tell("the first store is back")
        if self._rival is not None:
            await self._rival.close()
            self._rival = None
        self._leaving.come_back()

    def _check(self) -> None:
        self._check_failure()
        for client in self._clients:
            client.check_answers()

    # --- the end --------------------------------------------------------------

    async def _conclude(self) -> None:
        """Both stores are there: all that was accepted can be received."""
        await self._bring_back()
        await self._until(self._is_calm, "the first store did not come back")
        for client in self._clients:
            await self._drain(client)
        self._check()

    def _is_calm(self) -> bool:
        return (
            all(owner.state is OwnerState.SERVING for owner in self._owners)
            and self._owners.is_idle()
            and not any(client.is_waiting() for client in self._clients)
        )

    async def _until(self, condition: Callable[[], bool], what: str) -> None:
        ends_at = self.time() + PATIENCE_SECONDS
        while not condition():
            if self.time() > ends_at:
                raise Violation(what)
            await asyncio.sleep(TICK_SECONDS)

    async def _drain(self, client: QueueClient) -> None:
        """Let go of what is held, and take what is there."""
        client.fragment.home.leave(client.fragment, client.receiver)
        now = self.clock.now()
        for lock in client.held:
            if client.fragment.holds(lock, now):
                changes = client.fragment.home.changes
                settlement.release(client.fragment, lock, 1, now, changes)
        client.held.clear()
        client.fragment.home.wake()
        # What was let go is ready after a commit.
        await asyncio.sleep(1)
        receiver = client.receiver = QueueReceiver(client)
        client.fragment.home.join(client.fragment, receiver)
        client.receive(1_000)
        await asyncio.sleep(1)
        self._compare(client, [body_of(lock.message) for lock in client.held])

    def _compare(self, client: QueueClient, there: list[bytes]) -> None:
        account = client.account
        if len(set(there)) != len(there):
            raise Violation("a message is there twice")
        if back := set(there) & account.completed:
            raise Violation(f"completed messages came back: {sorted(back)}")
        expected = set(account.accepted) - account.completed - account.perhaps
        if lost := expected - set(there):
            raise Violation(f"accepted messages are gone: {sorted(lost)}")
        known = {*account.accepted, *account.unknown}
        if made_up := set(there) - known:
            raise Violation(f"refused messages are there: {sorted(made_up)}")
        if there != sorted(there):
            raise Violation("messages are out of order")
