"""A world of messages that go from one store to another, while stores come and go.

There are three stores; the first is always there. Queues forward to queues of other
stores and to a partitioned one; clients send to queues whose store is away, and via a
queue of another store. The process crashes at any moment, and just after a store has
taken what came from the outbox of another. In the end all stores are there, and:

- what was accepted is in its last entity, or a dead letter, and there once;
- what was refused is nowhere;
- messages of one sender are in order in each fragment;
- if only one store leaves, no send to a conventional queue is refused.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from simulator.loop import VirtualLoop
from simulator.partitions_world import FailingStore
from simulator.several_stores import (
    PATIENCE_SECONDS,
    TICK_SECONDS,
    SeveralStores,
    made_store,
)
from simulator.sighting import Violation
from twinbus.amqp.messaging import Data, Message, Properties, encode_message
from twinbus.amqp.types import Symbol
from twinbus.broker import message as stored
from twinbus.broker.commit_listener import CommitListener
from twinbus.broker.fragment import DEAD_LETTER, MAIN, TRANSFER_DEAD_LETTER
from twinbus.encoding.incoming import read_message
from twinbus.entities.partitioning import Partitioning
from twinbus.entities.queue import Queue
from twinbus.errors import InternalError, ServerBusy, ServiceBusError
from twinbus.links.routes import Routes
from twinbus.links.via import Via
from twinbus.outbox.outbox_arrival import LEDGER
from twinbus.outbox.transfer_log import TransferSettings
from twinbus.owner.owner_state import OwnerState
from twinbus.owner.store_owner import owner_of
from twinbus.store.base import Store
from twinbus.store.memory import MemoryDisk
from twinbus.store.memory_catalog import MemoryCatalog

_STORES: Final = 3
_KEYS: Final = ("red", "green", "blue")
_WAY: Final = "out-0"
_BEHIND: Final = "out-1"
_MOODY: Final = "out-2"
"""It is disabled from time to time, and nobody sends to it directly."""

_LAST: Final = ("out-0", "out-1", "out-2", "all")
"""Where messages stay."""

_READ: Final = (1_000, 1 << 30)


class DeadlyStore(FailingStore):
    """A store that takes time to commit, after which the process may end."""

    def __init__(self, store: Store, random: Random, die: Callable[[], None]) -> None:
        super().__init__(store, random)
        self.inner = store
        self._die = die
        # The process ends after the next commit of what came from an outbox.
        self.kills = False

    async def commit(self, changes: Any) -> None:
        await asyncio.sleep(self._random.choice((0, 0, 0.001, 0.05)))
        await super().commit(changes)
        came = any(one.source == LEDGER for one in changes.ledger_ranges)
        if came and self.kills:
            self._die()
            # Whoever waits for this commit is never told.
            await asyncio.get_running_loop().create_future()


@dataclass(slots=True, kw_only=True)
class Sent:
    """A message that a client has sent."""

    number: int
    # Who sends it, and where it goes in the end.
    stream: str
    key: str | None
    # So many bytes are added to its body.
    padding: int = 0
    is_accepted: bool = False
    # It may have been stored, although nobody said so.
    is_unknown: bool = True
    is_completed: bool = False
    # It may have been completed, although nobody said so.
    is_perhaps_completed: bool = False


class Sender(CommitListener):
    """Sends to one queue as a link does, directly or via another queue."""

    def __init__(self, world: "OutboxWorld", queue: Queue, via: Queue | None) -> None:
        super().__init__()
        self._world = world
        self._queue = queue
        namespace = world.namespace
        self._routes = Routes(
            queue.routing(),
            lambda home: home.introduce("sender"),
            world.clock.now,
            namespace.detour_of(queue),
        )
        self._via: Via | None = None
        if via is not None:
            self._via = Via(via.fragment(), queue.routing, 1)
        self.is_conventional = via is None and not queue.is_partitioned
        # By delivery id.
        self._deliveries: list[Sent] = []

    @property
    def stream(self) -> str:
        return self._queue.path if self._via is None else f"via to {self._queue.path}"

    def send(self, sent: Sent) -> None:
        delivery_id, now = len(self._deliveries), self._world.clock.now()
        self._deliveries.append(sent)
        try:
            if self._via is None:
                self._routes.send([encoded(sent)], False, delivery_id, self, now)
            else:
                self._via.send([encoded(sent)], delivery_id, self)
        except ServiceBusError as error:
            self.failed([delivery_id], error)

    def committed(self, items: list[int]) -> None:
        for delivery_id in items:
            self._deliveries[delivery_id].is_accepted = True

    def failed(self, items: list[int], error: ServiceBusError) -> None:
        for delivery_id in items:
            if isinstance(error, InternalError):
                continue
            self._deliveries[delivery_id].is_unknown = False
            if not isinstance(error, ServerBusy):
                self._world.fail(Violation(f"no reason to try again: {error!r}"))
            if self.is_conventional and self._world.has_one_leaver:
                self._world.fail(Violation(f"a send was refused: {error!r}"))


def encoded(sent: Sent) -> stored.Message:
    annotations: dict[object, object] = {}
    if sent.key is not None:
        annotations[Symbol("x-opt-partition-key")] = sent.key
    message = Message(
        message_annotations=annotations or None,
        properties=Properties(message_id=f"id-{sent.number}"),
        body=Data((bytes(sent.padding) + f"{sent.number:08}".encode(),)),
    )
    return read_message(encode_message(message), 0, 64 * 1024)


class OutboxWorld(SeveralStores):
    """Everything that exists for one seed."""

    def __init__(
        self,
        seed: int,
        loop: VirtualLoop,
        folder: Path | None,
        plant: Callable[[Store], Store] | None,
    ) -> None:
        super().__init__(seed, loop)
        self._folder = folder
        self._plant = plant
        self._disks = [MemoryDisk() for _ in range(_STORES)]
        self._catalog = MemoryCatalog()
        self.has_one_leaver = self._random.random() < 0.5
        self._keeps_keyed = self._random.random() < 0.5
        self._partitioning = Partitioning(fragment_count=self._random.choice((3, 4)))
        self._sent: list[Sent] = []
        self._last_paths: tuple[str, ...] = _LAST
        self._is_dying = False
        self._new_process()

    def _new_process(self) -> None:
        """Nothing of the last process is left but its disks."""
        self._is_dying = False
        self._stores = [
            DeadlyStore(self._store(number), Random(self._random.random()), self._die)
            for number in range(_STORES)
        ]
        self._make_bus(
            self._stores,
            self._catalog,
            partitioning=self._partitioning,
            transfer=TransferSettings(keyed=self._keeps_keyed),
        )
        self._senders: list[Sender] = []

    def _store(self, number: int) -> Store:
        disk = self._disks[number]
        store = made_store(self._folder, f"store-{number}", disk)
        return store if self._plant is None else self._plant(store)

    def _die(self) -> None:
        self._is_dying = True

    # --- the story ------------------------------------------------------------

    async def live(self) -> None:
        await self._start()
        await self._make_queues()
        self._attach()
        for _ in range(self._random.choice((40, 120))):
            await self._step()
            self._check_failure()
        await self._conclude()
        await self._stop()

    async def _crash(self) -> None:
        """End as a process does: nothing more happens, and the disks stay."""
        self._tell("CRASH")
        mine = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not mine]
        for store in self._stores:
            store.inner.abandon()  # type: ignore[attr-defined]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._catalog.close()
        self._new_process()
        await self._start()
        self._attach()

    async def _make_queues(self) -> None:
        """Each conventional queue goes to the store with the fewest fragments."""
        create, update = self.namespace.create_queue, self.namespace.update_queue
        for number in range(_STORES):
            await create(f"out-{number}", {})
        await create("all", {"enable_partitioning": True})
        for number in range(_STORES):
            await create(f"in-{number}", {})
            target = self._random.choice(("all", f"out-{(number + 1) % _STORES}"))
            await update(f"in-{number}", {"forward_to": target})

    def _attach(self) -> None:
        """New clients, after each start."""
        queue = self.namespace.queue
        paths = ("all", "out-0", "out-1", "in-0", "in-1", "in-2")
        self._senders = [Sender(self, queue(path), None) for path in paths]
        self._senders.append(Sender(self, queue(_BEHIND), queue(_WAY)))
        self._senders.append(Sender(self, queue(_MOODY), queue(_WAY)))

    async def _step(self) -> None:
        random = self._random
        choice = random.random()
        if choice < 0.65:
            sender = random.choice(self._senders)
            for _ in range(random.choice((1, 1, 4))):
                sender.send(self._next_message(sender))
        elif choice < 0.75:
            self._a_leaver().fails = True
        elif choice < 0.9:
            self._change_store(self._a_leaver())
        elif choice < 0.94:
            await self._change_mood()
        elif choice < 0.97:
            random.choice(self._stores).kills = True
        else:
            self._is_dying = True
        await asyncio.sleep(random.choice((0, 0, 0.01, 0.3, 2.0)))
        if self._is_dying:
            await self._crash()

    def _next_message(self, sender: Sender) -> Sent:
        key = self._random.choice((None, *_KEYS))
        sent = Sent(number=len(self._sent), stream=sender.stream, key=key)
        self._sent.append(sent)
        return sent

    def _a_leaver(self) -> DeadlyStore:
        leavers = self._stores[1:2] if self.has_one_leaver else self._stores[1:]
        return self._random.choice(leavers)

    def _change_store(self, store: DeadlyStore) -> None:
        number = self._stores.index(store)
        if store.is_away:
            self._tell(f"store {number} is back")
            store.come_back()
        else:
            self._tell(f"store {number} leaves")
            store.leave()

    async def _change_mood(self) -> None:
        status = self.namespace.queue(_MOODY).description.status
        new = "Active" if status != "Active" else "SendDisabled"
        with contextlib.suppress(ServerBusy):
            await self.namespace.update_queue(_MOODY, {"status": new})

    # --- the end --------------------------------------------------------------

    async def _conclude(self) -> None:
        """All stores are there, and nothing is on its way any more."""
        for store in self._stores:
            store.come_back()
            store.fails = store.kills = False
        ends_at = self._loop.time() + 2 * PATIENCE_SECONDS
        while not self._is_calm():
            if self._loop.time() > ends_at:
                raise Violation("messages are still on their way")
            await asyncio.sleep(TICK_SECONDS)
        await self._compare()
        self._check_failure()

    def _is_calm(self) -> bool:
        sources = [self.namespace.queue(f"in-{number}") for number in range(_STORES)]
        return (
            all(owner.state is OwnerState.SERVING for owner in self._owners)
            and self._owners.is_idle()
            and not any(owner.is_committing for owner in self._owners)
            and not any(owner.outbox.lanes() for owner in self._owners)
            and not any(queue.counts().active for queue in sources)
        )

    async def _compare(self) -> None:
        found: list[int] = []
        for number in range(_STORES):
            queue = self.namespace.queue(f"in-{number}")
            found += await self._read(queue, DEAD_LETTER)
        found += await self._read(self.namespace.queue(_WAY), TRANSFER_DEAD_LETTER)
        there: list[tuple[str, list[int]]] = []
        for path in self._last_paths:
            queue = self.namespace.queue(path)
            for index in range(queue.fragment_count):
                there.append((path, await self._read(queue, MAIN, index)))
                found += there[-1][1]
        if len(set(found)) != len(found):
            raise Violation("a message is there twice")
        for path, numbers in there:
            self._check_order(path, numbers)
        for sent in self._sent:
            is_there = sent.number in found
            may_be_gone = sent.is_completed or sent.is_perhaps_completed
            if sent.is_accepted and not is_there and not may_be_gone:
                raise Violation(f"message {sent.number} was accepted and is gone")
            if is_there and sent.is_completed:
                raise Violation(f"message {sent.number} was completed and is back")
            if is_there and not (sent.is_accepted or sent.is_unknown):
                raise Violation(f"message {sent.number} was refused and is there")

    async def _read(self, queue: Queue, sub_queue: int, index: int = 0) -> list[int]:
        if queue.counters(sub_queue, index) is None:
            return []
        fragment = queue.fragment(sub_queue, index)
        messages = await owner_of(fragment).store.browse(fragment.number, 0, *_READ)
        return [int(message.raw[-8:]) for message in messages]

    def _check_order(self, path: str, there: list[int]) -> None:
        by_stream: dict[tuple[str, str | None], list[int]] = {}
        for number in there:
            sent = self._sent[number]
            # Without a key a partitioned queue has no order.
            if path == "all" and sent.key is None:
                continue
            key = sent.key if path == "all" else None
            by_stream.setdefault((sent.stream, key), []).append(number)
        for stream, numbers in by_stream.items():
            if numbers != sorted(numbers):
                raise Violation(f"{path}: {stream} is out of order: {numbers}")
