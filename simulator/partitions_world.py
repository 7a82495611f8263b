"""A world with a partitioned queue over three stores, of which two come and go.

Clients send with and without keys, by the code that links use, and receive from all
fragments with one pool of credit. What must hold:

- a send without a key is never refused, because one store is always there;
- a message is there once at most: what may have happened is not sent again;
- what was accepted is there until it is completed;
- messages with one key are in one fragment, in the order in which they were sent;
- a duplicate of an accepted message is not stored.
"""

import asyncio
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
from simulator.stores_world import LeavingStore
from twinbus.amqp.messaging import Data, Message, Properties, encode_message
from twinbus.amqp.types import Symbol
from twinbus.broker import message as stored
from twinbus.broker import settlement
from twinbus.broker.commit_listener import CommitListener
from twinbus.broker.fragment import Fragment
from twinbus.broker.message_lock import MessageLock
from twinbus.broker.receiver import Receiver
from twinbus.encoding.incoming import read_message
from twinbus.entities.partitioning import Partitioning
from twinbus.entities.queue import Queue
from twinbus.errors import InternalError, ServerBusy, ServiceBusError
from twinbus.links.routes import Routes
from twinbus.owner.owner_state import OwnerState
from twinbus.store.base import CommitFailed, Store
from twinbus.store.memory_catalog import MemoryCatalog

_STORES: Final = 3
_KEYS: Final = ("red", "green", "blue", "black")
_DRAINED: Final = 10_000


class FailingStore(LeavingStore):
    """A store whose commits fail from time to time, too, without any effect."""

    def __init__(self, store: Store, random: Random) -> None:
        super().__init__(store, random)
        self.fails = False

    async def commit(self, changes: Any) -> None:
        self.check()
        if self.fails:
            self.fails = False
            raise CommitFailed("the commit failed")
        await super().commit(changes)


@dataclass(slots=True, kw_only=True)
class Sent:
    """A message that a client has sent, once or again."""

    number: int
    key: str | None
    # None until the first answer that says so.
    is_accepted: bool = False
    # It may have been stored, although nobody said so.
    is_unknown: bool = False
    is_completed: bool = False
    # It may have been completed, although nobody said so.
    is_perhaps_completed: bool = False
    waiting_count: int = 0


@dataclass(slots=True)
class Account:
    """Everything that was sent, by number."""

    messages: dict[int, Sent] = field(default_factory=dict)


class Sender(CommitListener):
    """Sends to the queue, as a link does."""

    def __init__(self, world: "PartitionsWorld", queue: Queue) -> None:
        super().__init__()
        self._world = world
        self._routes = Routes(
            queue.routing(), lambda home: home.introduce("sender"), world.clock.now
        )
        # By delivery id.
        self._deliveries: list[Sent] = []

    def send(self, sent: Sent) -> None:
        delivery_id = len(self._deliveries)
        self._deliveries.append(sent)
        sent.waiting_count += 1
        now = self._world.clock.now()
        try:
            message = encoded(sent)
            self._routes.send([message], False, delivery_id, self, now)
        except ServiceBusError as error:
            self.failed([delivery_id], error)

    def committed(self, items: list[int]) -> None:
        for delivery_id in items:
            sent = self._deliveries[delivery_id]
            sent.waiting_count -= 1
            sent.is_accepted = True

    def failed(self, items: list[int], error: ServiceBusError) -> None:
        for delivery_id in items:
            sent = self._deliveries[delivery_id]
            sent.waiting_count -= 1
            if isinstance(error, InternalError):
                sent.is_unknown = True
            elif not isinstance(error, ServerBusy):
                self._world.fail(Violation(f"no reason to try again: {error!r}"))
            elif sent.key is None and not self._world.detects_duplicates:
                self._world.fail(Violation(f"refused without a key: {error!r}"))


def encoded(sent: Sent) -> stored.Message:
    annotations: dict[object, object] = {}
    if sent.key is not None:
        annotations[Symbol("x-opt-partition-key")] = sent.key
    message = Message(
        message_annotations=annotations or None,
        properties=Properties(message_id=f"id-{sent.number}"),
        body=Data((f"{sent.number:08}".encode(),)),
    )
    return read_message(encode_message(message), 0, 64 * 1024)


def number_of(message: stored.Message) -> int:
    return int(message.raw[-8:])


class Pool:
    """Receives from all fragments with one pool of credit."""

    def __init__(self, world: "PartitionsWorld", fragments: list[Fragment]) -> None:
        self._world = world
        self.credit = 0
        self.held: list[tuple[Fragment, MessageLock]] = []
        self.receivers = [FragmentReceiver(self, fragment) for fragment in fragments]
        for receiver in self.receivers:
            receiver.fragment.home.join(receiver.fragment, receiver)

    def receive(self, count: int) -> None:
        self.credit += count
        for receiver in self.receivers:
            receiver.fragment.home.offer_capacity(receiver.fragment, receiver)

    def delivered(self, fragment: Fragment, locks: list[MessageLock]) -> None:
        self.credit -= len(locks)
        if self.credit < 0:
            self._world.fail(Violation("more messages than credit"))
        self.held += [(fragment, lock) for lock in locks]

    def settle(self) -> None:
        """The oldest message that is held."""
        if not self.held:
            return
        (fragment, lock), now = self.held.pop(0), self._world.clock.now()
        if fragment.holds(lock, now):
            home = fragment.home
            sent = self._world.sent_of(lock.message)
            settlement.complete(fragment, lock, 1, now, home.changes)
            Completion(sent).note(home, 0)
            home.wake()

    def leave(self) -> None:
        for receiver in self.receivers:
            receiver.fragment.home.leave(receiver.fragment, receiver)
        now = self._world.clock.now()
        for fragment, lock in self.held:
            if fragment.holds(lock, now):
                settlement.release(fragment, lock, 1, now, fragment.home.changes)
                fragment.home.wake()


class Completion(CommitListener):
    """Waits for the commit of one settlement."""

    def __init__(self, sent: Sent) -> None:
        super().__init__()
        self._sent = sent

    def committed(self, items: list[int]) -> None:
        self._sent.is_completed = True

    def failed(self, items: list[int], error: ServiceBusError) -> None:
        if isinstance(error, InternalError):
            self._sent.is_perhaps_completed = True


class FragmentReceiver(Receiver):
    """The part of a pool that receives from one fragment."""

    def __init__(self, pool: Pool, fragment: Fragment) -> None:
        super().__init__(1, True)
        self._pool = pool
        self.fragment = fragment

    def capacity(self) -> int:
        return self._pool.credit

    def deliver_locked(self, locks: list[MessageLock]) -> None:
        self._pool.delivered(self.fragment, locks)

    def deliver_removed(self, messages: list[stored.Message]) -> None:
        raise AssertionError("it receives under locks")

    def served(self) -> None:
        pass

    def session_lost(self) -> None:
        raise AssertionError("it has no session")


class PartitionsWorld(SeveralStores):
    """Everything that exists for one seed."""

    def __init__(
        self,
        seed: int,
        loop: VirtualLoop,
        folder: Path | None,
        plant: Callable[[Store], Store] | None,
    ) -> None:
        super().__init__(seed, loop)
        self._stores = [
            FailingStore(
                _planted(made_store(folder, f"store-{number}"), plant),
                Random(self._random.random()),
            )
            for number in range(_STORES)
        ]
        self._make_bus(
            self._stores,
            MemoryCatalog(),
            partitioning=Partitioning(fragment_count=self._random.choice((3, 4, 7))),
        )
        self.detects_duplicates = self._random.random() < 0.3
        self._account = Account()

    def sent_of(self, message: stored.Message) -> Sent:
        return self._account.messages[number_of(message)]

    # --- the story ------------------------------------------------------------

    async def live(self) -> None:
        await self._start()
        queue = await self.namespace.create_queue(
            "orders",
            {
                "enable_partitioning": True,
                "requires_duplicate_detection": self.detects_duplicates,
            },
        )
        self._check_spread(queue)
        sender, pool = Sender(self, queue), Pool(self, queue.fragments())
        for _ in range(self._random.choice((40, 150))):
            await self._step(sender, pool)
        await self._conclude(queue, pool)
        await self._stop()

    def _check_spread(self, queue: Queue) -> None:
        homes = {fragment.home for fragment in queue.fragments()}
        if len(homes) != _STORES:
            raise Violation(f"the fragments are in {len(homes)} stores")

    async def _step(self, sender: Sender, pool: Pool) -> None:
        random = self._random
        choice = random.random()
        if choice < 0.5:
            for _ in range(random.choice((1, 1, 4))):
                sender.send(self._next_message())
        elif choice < 0.65:
            pool.receive(random.randint(1, 3))
        elif choice < 0.8:
            pool.settle()
        elif choice < 0.9:
            random.choice(self._stores[1:]).fails = True
        else:
            self._change_store(random.choice(self._stores[1:]))
        await asyncio.sleep(random.choice((0, 0, 0.01, 0.3, 2.0)))
        self._check_failure()

    def _next_message(self) -> Sent:
        """A new message, or one again that may have been stored: its client does not
        know, and duplicates are detected."""
        random, messages = self._random, self._account.messages
        if self.detects_duplicates and messages and random.random() < 0.4:
            return random.choice(list(messages.values()))
        key = random.choice((None, None, *_KEYS))
        sent = Sent(number=len(messages) + 1, key=key)
        messages[sent.number] = sent
        return sent

    def _change_store(self, store: FailingStore) -> None:
        number = self._stores.index(store)
        if store.is_away:
            self._tell(f"store {number} is back")
            store.come_back()
        else:
            self._tell(f"store {number} leaves")
            store.leave()

    # --- the end --------------------------------------------------------------

    async def _conclude(self, queue: Queue, pool: Pool) -> None:
        """All stores are there: all that was accepted can be received."""
        for store in self._stores:
            store.come_back()
            store.fails = False
        await self._until_calm()
        pool.leave()
        # What was let go is ready after a commit.
        await asyncio.sleep(1)
        last = Pool(self, queue.fragments())
        last.receive(_DRAINED)
        await asyncio.sleep(1)
        self._compare([(fragment, lock.message) for fragment, lock in last.held])
        self._check_failure()

    async def _until_calm(self) -> None:
        ends_at = self._loop.time() + PATIENCE_SECONDS
        while not self._is_calm():
            if self._loop.time() > ends_at:
                raise Violation("the stores did not come back")
            await asyncio.sleep(TICK_SECONDS)

    def _is_calm(self) -> bool:
        messages = self._account.messages.values()
        return (
            all(owner.state is OwnerState.SERVING for owner in self._owners)
            and self._owners.is_idle()
            and not any(sent.waiting_count for sent in messages)
        )

    def _compare(self, found: list[tuple[Fragment, stored.Message]]) -> None:
        numbers = [number_of(message) for _, message in found]
        if len(set(numbers)) != len(numbers):
            raise Violation("a message is there twice")
        for sent in self._account.messages.values():
            is_there = sent.number in numbers
            may_be_gone = sent.is_completed or sent.is_perhaps_completed
            if sent.is_accepted and not is_there and not may_be_gone:
                raise Violation(f"message {sent.number} was accepted and is gone")
            if is_there and sent.is_completed:
                raise Violation(f"message {sent.number} was completed and is back")
            if is_there and not (sent.is_accepted or sent.is_unknown):
                raise Violation(f"message {sent.number} was refused and is there")
        for key in _KEYS:
            self._check_order(key, found)

    def _check_order(
        self, key: str, found: list[tuple[Fragment, stored.Message]]
    ) -> None:
        of_key = [
            (fragment.index, message.row_id, number_of(message))
            for fragment, message in found
            if self.sent_of(message).key == key
        ]
        if len({index for index, _, _ in of_key}) > 1:
            raise Violation(f"the messages of '{key}' are in several fragments")
        if self.detects_duplicates:
            return  # one that was refused is sent again, later than others
        in_order = [number for _, _, number in sorted(of_key)]
        if in_order != sorted(in_order):
            raise Violation(f"the messages of '{key}' are out of order")


def _planted(store: Store, plant: Callable[[Store], Store] | None) -> Store:
    return store if plant is None else plant(store)
