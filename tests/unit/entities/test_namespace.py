"""Entities: creating, updating and deleting them, and what may happen in between."""

import asyncio
from dataclasses import replace

import pytest

from twinbus.broker import settlement
from twinbus.broker.fragment import DEAD_LETTER
from twinbus.errors import (
    ArgumentError,
    EntityAlreadyExists,
    MessageLockLost,
    MessagingEntityNotFound,
    QuotaExceeded,
    ServerBusy,
)
from twinbus.store.base import (
    CommitFailed,
    StoreFull,
    StoreUnreadable,
)
from twinbus.store.catalog import HASH_VERSION

from .world import Client, Fault, World, message


async def test_created_queue_is_found_in_any_case(world: World) -> None:
    queue = await world.namespace.create_queue("Orders/New", {})
    assert world.namespace.queue("orders/NEW") is queue
    assert queue.path == "Orders/New"
    assert [found.path for found in world.namespace.queues()] == ["Orders/New"]


async def test_created_queue_is_there_after_a_restart(world: World) -> None:
    await world.namespace.create_queue("orders", {"max_delivery_count": 3})
    await world.stop()
    again = World()
    again.store.inner.disk = world.store.inner.disk
    again.catalog.inner = world.catalog.inner
    await again.start()
    queue = again.namespace.queue("orders")
    assert queue.description.max_delivery_count == 3
    assert queue.fragment().settings.max_delivery_count == 3
    await again.stop()


async def test_catalog_without_its_store_is_refused(world: World) -> None:
    await world.namespace.create_queue("orders", {})
    await world.stop()
    again = World()
    again.catalog.inner = world.catalog.inner
    with pytest.raises(StoreUnreadable, match="'orders'"):
        await again.start()


async def restarted_with_hash_version(version: int | None) -> World:
    """A partitioned queue whose record has this version of the key hash."""
    world = World(store_count=2)
    await world.start()
    properties = {"enable_partitioning": True}
    record = (await world.namespace.create_queue("orders", properties)).record
    assert record.description[HASH_VERSION] == 1
    described = {k: v for k, v in record.description.items() if k != HASH_VERSION}
    if version is not None:
        described[HASH_VERSION] = version
    await world.catalog.inner.put(replace(record, description=described))
    await world.stop()
    again = World(store_count=2)
    for store, before in zip(again.stores, world.stores, strict=True):
        store.inner.disk = before.inner.disk
    again.catalog.inner = world.catalog.inner
    return again


async def test_unknown_version_of_the_key_hash_is_refused_by_name() -> None:
    again = await restarted_with_hash_version(2)
    with pytest.raises(StoreUnreadable, match=r"'orders' .* version 2 of the key hash"):
        await again.start()


@pytest.mark.parametrize("version", [1, None])
async def test_first_version_of_the_key_hash_is_read(version: int | None) -> None:
    again = await restarted_with_hash_version(version)
    await again.start()
    assert again.namespace.queue("orders").fragment_count > 1
    await again.stop()


async def test_two_creations_at_once_make_one_queue(world: World) -> None:
    creations = [world.namespace.create_queue(path, {}) for path in ("a", "A")]
    first, second = await asyncio.gather(*creations, return_exceptions=True)
    assert world.namespace.queue("a") is first
    assert isinstance(second, EntityAlreadyExists)


async def test_queue_that_exists_is_not_made_again(world: World) -> None:
    await world.namespace.create_queue("a", {})
    with pytest.raises(EntityAlreadyExists, match="'A' already exists"):
        await world.namespace.create_queue("A", {})


async def test_number_of_entities_has_a_limit() -> None:
    world = World(max_entities=1)
    await world.start()
    await world.namespace.create_queue("a", {})
    with pytest.raises(QuotaExceeded, match="2 entities and 1 is the limit"):
        await world.namespace.create_queue("b", {})
    await world.stop()


@pytest.mark.parametrize("path", ["", "/a", "a//b", "a b", "$cbs", "x" * 261])
async def test_names_that_no_entity_can_have_are_refused(
    world: World, path: str
) -> None:
    with pytest.raises(ArgumentError):
        await world.namespace.create_queue(path, {})


async def test_creation_that_cannot_be_committed_leaves_nothing(world: World) -> None:
    world.store.faults = [Fault(StoreFull("full"))]
    with pytest.raises(ServerBusy, match="full"):
        await world.namespace.create_queue("orders", {})
    with pytest.raises(MessagingEntityNotFound):
        world.namespace.queue("orders")
    await world.namespace.create_queue("orders", {})
    assert len(world.store.inner.disk.fragments) == 1


async def test_creation_that_the_catalog_refuses_leaves_nothing(world: World) -> None:
    world.catalog.error = StoreFull("full")
    with pytest.raises(ServerBusy, match="The catalog is away: full"):
        await world.namespace.create_queue("orders", {})
    await world.settled()
    await world.advance(0)
    assert world.store.inner.disk.fragments == {}
    assert world.store.inner.disk.dropped == set()
    await world.namespace.create_queue("orders", {})


async def test_update_changes_what_it_names_and_keeps_the_rest(world: World) -> None:
    await world.namespace.create_queue("a", {"max_delivery_count": 3})
    queue = await world.namespace.update_queue("A", {"lock_duration_ms": 5_000})
    assert queue.description.max_delivery_count == 3
    assert queue.fragment().settings.lock_duration_ms == 5_000
    assert queue.fragment(DEAD_LETTER).settings.lock_duration_ms == 5_000


async def test_update_of_nothing_is_refused(world: World) -> None:
    with pytest.raises(MessagingEntityNotFound, match="'a' could not be found"):
        await world.namespace.update_queue("a", {})


async def test_update_and_removal_at_once_leave_no_queue(world: World) -> None:
    await world.namespace.create_queue("a", {})
    await asyncio.gather(
        world.namespace.delete_queue("a"),
        world.namespace.delete_queue("a"),
        world.namespace.update_queue("a", {"max_delivery_count": 3}),
        return_exceptions=True,
    )
    with pytest.raises(MessagingEntityNotFound):
        world.namespace.queue("a")
    await world.namespaces.close()
    assert [record.kind for record in await world.catalog.open()] == ["namespace"]


async def test_deleted_queue_leaves_no_rows(world: World) -> None:
    queue = await world.namespace.create_queue("a", {})
    fragment = queue.fragment()
    fragment.enqueue(message(), 1, world.clock.now(), world.owner.changes)
    await world.owner.durable()
    await world.namespace.delete_queue("A")
    await world.settled()
    disk = world.store.inner.disk
    assert (disk.fragments, disk.dropped) == ({}, set())
    assert fragment.row_id(1) not in disk.active


async def test_queue_can_be_made_again_after_its_removal(world: World) -> None:
    first = await world.namespace.create_queue("a", {})
    await world.namespace.delete_queue("a")
    second = await world.namespace.create_queue("a", {})
    assert first.record.generation != second.record.generation
    assert second.fragment().active_count == 0


async def test_removal_that_cannot_be_committed_is_told(world: World) -> None:
    await world.namespace.create_queue("a", {})
    world.store.faults = [Fault(CommitFailed("no"))]
    with pytest.raises(ServerBusy):
        await world.namespace.delete_queue("a")
    with pytest.raises(MessagingEntityNotFound):
        world.namespace.queue("a")


async def test_time_does_nothing_to_a_deleted_queue(world: World) -> None:
    """Expiry and the end of a lock would dead-letter, and there is nowhere to."""
    queue = await world.namespace.create_queue(
        "a", {"max_delivery_count": 1, "dead_lettering_on_message_expiration": True}
    )
    fragment, owner = queue.fragment(), world.owner
    client = Client(wanted=1)
    owner.join(fragment, client)
    for _ in range(2):
        fragment.enqueue(message(ttl_ms=50_000), 1, world.clock.now(), owner.changes)
    await owner.durable()
    owner.offer_capacity(fragment, client)
    assert len(client.locks) == 1 and fragment.window.ready_count() == 1
    await world.namespace.delete_queue("a")
    await world.advance(100_000)
    assert world.store.inner.disk.fragments == {}
    with pytest.raises(MessageLockLost):
        lock = client.locks[0]
        settlement.complete(fragment, lock, 1, world.clock.now(), owner.changes)


async def test_message_on_its_way_into_a_deleted_queue_is_gone(world: World) -> None:
    queue = await world.namespace.create_queue(
        "a", {"dead_lettering_on_message_expiration": True}
    )
    fragment = queue.fragment()
    fragment.enqueue(message(ttl_ms=10), 1, world.clock.now(), world.owner.changes)
    await world.namespace.delete_queue("a")
    await world.advance(1_000)
    assert world.store.inner.disk.fragments == {}
    with pytest.raises(MessagingEntityNotFound):
        fragment.check_quota(1)
