"""Stores in memory that fail on demand, and a queue in each of the first two."""

import asyncio
from collections.abc import Callable
from typing import Any

from unit.entities.world import Client, Fault, FaultyStore

from twinbus.amqp.messaging import AmqpValue, Message, Properties, encode_message
from twinbus.broker import message as stored
from twinbus.broker.commit_listener import CommitListener
from twinbus.broker.fragment import Fragment
from twinbus.encoding.incoming import read_message
from twinbus.entities.namespace_limits import NamespaceLimits
from twinbus.entities.namespaces import Namespaces
from twinbus.entities.queue import Queue
from twinbus.errors import ServiceBusError
from twinbus.outbox.transfer_log import TransferSettings
from twinbus.owner.owners import Owners
from twinbus.owner.store_owner import StoreOwner
from twinbus.owner.turns import Turns
from twinbus.store.base import StoreError
from twinbus.store.memory_catalog import MemoryCatalog
from twinbus.testing.clock import ManualClock

NOW = 1_800_000_000_000
_TURNS = 200


class Answers(CommitListener):
    """What a sender was told, by item."""

    def __init__(self) -> None:
        super().__init__()
        self.accepted: list[int] = []
        self.errors: list[ServiceBusError] = []

    def committed(self, items: list[int]) -> None:
        self.accepted += items

    def failed(self, items: list[int], error: ServiceBusError) -> None:
        self.errors += [error] * len(items)


class World:
    """The queue `here` is in the first store, `there` in the second one."""

    def __init__(self, store_count: int = 2, **transfer: Any) -> None:
        self.clock = ManualClock(NOW)
        self.stores = [FaultyStore() for _ in range(store_count)]
        self._count = 0
        self.owners = Owners([self._owner(store) for store in self.stores])
        self.namespaces = Namespaces(
            "space",
            MemoryCatalog(),
            self.owners,
            self.clock,
            self._entropy,
            Turns(self.clock),
            rules=(),
            limits=NamespaceLimits(
                max_entities=100, max_message_bytes=1000, max_entity_message_bytes=1000
            ),
            transfer=TransferSettings(**transfer),
        )
        self.namespace = self.namespaces.default

    def _owner(self, store: Any) -> StoreOwner:
        return StoreOwner(
            store,
            self.clock,
            self._entropy,
            on_fatal=lambda error: None,
            after_turn=lambda: None,
            on_pressure=lambda is_high: None,
        )

    def _entropy(self, count: int) -> bytes:
        self._count += 1
        return self._count.to_bytes(5, "big") * (count // 5 + 1)

    async def start(self) -> None:
        await self.owners.open("test")
        await self.namespaces.open()
        self.owners.start()
        self.namespaces.start()
        self.here = await self.namespace.create_queue("here", {})
        self.there = await self.namespace.create_queue("there", {})
        assert self.first is not self.second

    async def stop(self) -> None:
        await self.owners.stop()
        await self.namespaces.close()

    @property
    def first(self) -> StoreOwner:
        """The owner of `here`."""
        return self._home(self.here)

    @property
    def second(self) -> StoreOwner:
        return self._home(self.there)

    def _home(self, queue: Queue) -> StoreOwner:
        [found] = [one for one in self.owners if one is queue.fragment().home]
        return found

    def store_of(self, owner: StoreOwner) -> FaultyStore:
        return self.stores[list(self.owners).index(owner)]

    async def leave(self, owner: StoreOwner) -> None:
        """Its next commit fails for good, and it cannot be opened again."""
        store = self.store_of(owner)
        store.faults.append(Fault(StoreError("the store is away")))
        store.errors["lease"] = StoreError("the store is away")
        owner.introduce("somebody")
        with_error = asyncio.gather(owner.durable(), return_exceptions=True)
        await with_error
        await self.until(lambda: not owner.is_serving)

    async def come_back(self, owner: StoreOwner) -> None:
        del self.store_of(owner).errors["lease"]
        await self.until(lambda: owner.is_serving)

    async def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(_TURNS):
            if condition():
                return
            self.clock.advance(100)
            self.owners.tick()
            self.namespaces.tick(self.clock.now())
            for _ in range(10):
                await asyncio.sleep(0)
        raise AssertionError("it does not happen")

    async def delivered(self) -> None:
        """Nothing is on its way."""
        await self.until(
            lambda: (
                not any(one.outbox.lanes() for one in self.owners)
                and self.owners.is_idle()
            )
        )


def message(body: str = "x", **properties: Any) -> stored.Message:
    made = Message(properties=Properties(**properties), body=AmqpValue(body))
    return read_message(encode_message(made), 0, 64 * 1024)


def body_of(found: stored.Message) -> str:
    """The last characters: bodies in tests are short."""
    raw = found.raw
    at = raw.rindex(b"\xa1")
    return raw[at + 2 :].decode()


def received(fragment: Fragment) -> list[str]:
    """Bodies of all messages of a fragment, which stay locked."""
    client = Client(wanted=1_000)
    fragment.home.join(fragment, client)
    fragment.home.offer_capacity(fragment, client)
    fragment.home.leave(fragment, client)
    return [body_of(lock.message) for lock in client.locks]
