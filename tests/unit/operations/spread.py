"""A namespace whose partitioned entities have four fragments, in one store or in three,
and what is sent to them."""

import asyncio
from itertools import count, islice
from typing import Any

from unit.entities.world import Fault, World, take_time

from twinbus.amqp.messaging import Data, Properties, encode_message
from twinbus.amqp.messaging import Message as Sent
from twinbus.amqp.types import Symbol, Timestamp
from twinbus.broker.fragment import Fragment
from twinbus.broker.row_id import SEQUENCE_BITS
from twinbus.entities.partitioning import Partitioning
from twinbus.fragments.hashing import fragment_index
from twinbus.owner.store_owner import StoreOwner, owner_of
from twinbus.store.base import StoreError

FRAGMENTS = 4


def spread_world(store_count: int) -> World:
    return World(
        store_count=store_count, partitioning=Partitioning(fragment_count=FRAGMENTS)
    )


def key_in(index: int, number: int = 0) -> str:
    """A key whose messages are in that fragment; another one for each number."""
    keys = (f"key {n}" for n in count())
    fitting = (key for key in keys if fragment_index(key, FRAGMENTS) == index)
    return next(islice(fitting, number, None))


def encoded(
    body: str = "x",
    *,
    key: str | None = None,
    session_id: str | None = None,
    message_id: str | None = None,
    send_id: bytes | None = None,
    due: int = 0,
) -> bytes:
    annotations: dict[object, object] = {}
    if key is not None:
        annotations[Symbol("x-opt-partition-key")] = key
    if send_id is not None:
        annotations[Symbol("x-opt-twinbus-send-id")] = send_id
    if due:
        annotations[Symbol("x-opt-scheduled-enqueue-time")] = Timestamp(due)
    return encode_message(
        Sent(
            message_annotations=annotations or None,
            properties=Properties(message_id=message_id, group_id=session_id),
            body=Data((body.encode(),)),
        )
    )


def index_of(number: int) -> int:
    """The fragment of a sequence number."""
    return number >> SEQUENCE_BITS


def fragments(world: World, path: str = "orders") -> list[Fragment]:
    return world.namespace.entity(path).fragments()


def owner_at(world: World, index: int, path: str = "orders") -> StoreOwner:
    return owner_of(fragments(world, path)[index])


async def take_away(world: World, owner: StoreOwner) -> None:
    """Let the store of this owner fail, until it is told to work again."""
    store: Any = next(one for one in world.stores if owner._store is one)
    store.errors["open"] = StoreError("the disk is gone")
    store.faults.append(Fault(StoreError("the disk is gone")))
    waiting = asyncio.gather(owner.durable(), return_exceptions=True)
    await waiting
    while owner.is_serving:
        await take_time()


async def bring_back(world: World, owner: StoreOwner) -> None:
    store: Any = next(one for one in world.stores if owner._store is one)
    store.errors.clear()
    while not owner.is_serving:
        world.clock.advance(10_000)
        world.owners.tick()
        await asyncio.sleep(0)
