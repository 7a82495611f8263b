"""A world of messages that go from one store to another, while stores are full, or can
only be read; or away, as in `outbox_world.py`, which has the rest.

The first store always takes everything. A client also receives from a queue of each
store, and settles. Beside what is true there:

- a completed message does not come back, and one that is not is there;
- when it is known that a store has no room, but takes what only removes, no settlement
  there is refused for want of room.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final, cast

from simulator.loop import VirtualLoop
from simulator.outbox_worker import Worker
from simulator.outbox_world import DeadlyStore, OutboxWorld, Sender, Sent
from simulator.shortage import Capacity, Shortage, ShortStore
from twinbus.broker.message import Message
from twinbus.entities.queue import Queue
from twinbus.owner.store_owner import owner_of
from twinbus.store.base import Store

_SHORTAGES: Final = (
    *(Shortage.ROOM, Shortage.ROOM, Shortage.ROOM),
    *(Shortage.ALL_ROOM, Shortage.WRITING, Shortage.WRITING),
)
_STORES: Final = 3


class OutboxFullWorld(OutboxWorld):
    """Everything that exists for one seed."""

    def __init__(
        self,
        seed: int,
        loop: VirtualLoop,
        folder: Path | None,
        plant: Callable[[Store], Store] | None,
    ) -> None:
        # They outlive the process.
        self._capacities = [Capacity() for _ in range(_STORES)]
        self._choices = Random(seed)
        self._workers: list[Worker] = []
        super().__init__(seed, loop, folder, plant)
        works = tuple(f"work-{number}" for number in range(_STORES))
        self._works = works
        self._last_paths = (*self._last_paths, *works)

    def _store(self, number: int) -> Store:
        store = ShortStore(super()._store(number), self._capacities[number])
        return cast(Store, store)

    def sent_of(self, message: Message) -> Sent:
        return self._sent[int(message.raw[-8:])]

    # --- the story ------------------------------------------------------------

    async def _make_queues(self) -> None:
        await super()._make_queues()
        for path in self._works:
            await self.namespace.create_queue(path, {})

    def _attach(self) -> None:
        super()._attach()
        queues = [self.namespace.queue(path) for path in self._works]
        self._senders += [Sender(self, queue, None) for queue in queues]
        self._workers = [
            Worker(self, queue.fragment(), self._capacity_of(queue).full_seconds)
            for queue in queues
        ]

    def _capacity_of(self, queue: Queue) -> Capacity:
        owner = owner_of(queue.fragment())
        return self._capacities[list(self._owners).index(owner)]

    async def _step(self) -> None:
        random = self._choices
        choice = random.random()
        if choice < 0.15:
            random.choice(self._workers).receive(random.randint(1, 3))
        elif choice < 0.3:
            self._complete_some()
        elif choice < 0.5:
            self._send_many()
        await super()._step()

    def _send_many(self) -> None:
        """More than there may be room for, and settle in the middle of it."""
        random = self._choices
        for worker in self._workers:
            worker.receive(1)
        sender = random.choice([one for one in self._senders if one.is_conventional])
        for _ in range(random.randint(2, 4)):
            for _ in range(random.randint(1, 3)):
                sender.send(self._next_message(sender))
            self._complete_some()

    def _complete_some(self) -> None:
        for worker in self._workers:
            worker.complete()

    def _next_message(self, sender: Sender) -> Sent:
        """Some do not fit into what is left, when others do. Those that are forwarded
        all do."""
        sent = super()._next_message(sender)
        if sender.is_conventional and not sender.stream.startswith("in-"):
            sent.padding = self._choices.choice((0, 0, 0, 600))
        return sent

    def _change_store(self, store: DeadlyStore) -> None:
        """A store that is away has no use for room."""
        if store.is_away or self._choices.random() < 0.2:
            super()._change_store(store)
        else:
            self._change_room(store)

    def _change_room(self, store: DeadlyStore) -> None:
        number = self._stores.index(store)
        capacity, random = self._capacities[number], self._choices
        if capacity.is_short and random.random() < 0.4:
            capacity.end()
        else:
            capacity.begin(random.choice(_SHORTAGES), random)
        self._tell(f"store {number} {capacity.shortage.value}")

    async def _crash(self) -> None:
        """A start needs stores that can be taken."""
        for capacity in self._capacities:
            if not capacity.takes_leases:
                capacity.begin(Shortage.ROOM, self._choices)
        await super()._crash()

    # --- the end --------------------------------------------------------------

    async def _conclude(self) -> None:
        for capacity in self._capacities:
            capacity.end()
        await super()._conclude()
