"""Creations and removals that are interrupted at any step: the next start finishes
them, and drops only what the catalog has named."""

import asyncio
from dataclasses import replace

import pytest

from twinbus.broker import schedule
from twinbus.errors import ServerBusy
from twinbus.store.base import CatalogIncomplete, CommitFailed
from twinbus.store.catalog import (
    INTENT,
    TOMBSTONE,
    EntityRecord,
    entity_of,
    unfinished,
)
from twinbus.store.memory_catalog import MemoryCatalog

from .world import Fault, World, message


def _after(world: World, name: str = "space") -> World:
    """The next life on the same disk and catalog."""
    again = World(name=name)
    again.store.inner.disk = world.store.inner.disk
    again.catalog.inner = world.catalog.inner
    again.entropy_count = world.entropy_count
    return again


async def _send(world: World, path: str, *, at: int = 0) -> None:
    fragment = world.namespace.queue(path).fragment()
    if at:
        world.owner.expect(at)
        later = message()
        later.scheduled_at = at
        schedule.schedule(fragment, later, 7, world.clock.now(), world.owner.changes)
    else:
        fragment.enqueue(message(), 7, world.clock.now(), world.owner.changes)
    await world.owner.durable()


async def test_catalog_that_lacks_an_entity_is_refused(world: World) -> None:
    await world.namespace.create_queue("orders", {})
    await _send(world, "orders")
    await world.stop()
    again = _after(world)
    again.catalog.inner = MemoryCatalog()
    with pytest.raises(CatalogIncomplete, match=r"1 entity with 1 message .*'orders'"):
        await again.start()
    assert await again.catalog.inner.unfinished() == []
    assert len(world.store.inner.disk.fragments) == 1


async def test_catalog_that_lacks_an_empty_queue_is_refused_too(world: World) -> None:
    await world.namespace.create_queue("orders", {})
    await world.stop()
    again = _after(world)
    again.catalog.inner = MemoryCatalog()
    with pytest.raises(CatalogIncomplete, match="1 entity with 0 messages"):
        await again.start()


@pytest.mark.parametrize("step", ["intend", "before put", "put"])
async def test_creation_that_ended_between_two_steps_is_forgotten(step: str) -> None:
    """By the next start, with nothing else: another queue stays."""
    world = World()
    await world.start()
    await world.namespace.create_queue("kept", {})
    stopped = asyncio.Event()
    world.catalog.after[step] = stopped.set
    creation = asyncio.create_task(world.namespace.create_queue("orders", {}))
    await stopped.wait()
    again = _after(world)
    await world.crash(creation)
    await again.start()
    is_made = step == "put"
    paths = [queue.path for queue in again.namespace.queues()]
    assert paths == (["kept", "orders"] if is_made else ["kept"])
    await again.settle_loose_ends()
    assert len(again.store.inner.disk.fragments) == len(paths)
    assert await again.catalog.inner.unfinished() == []
    assert len(again.store.inner.disk.entities) == len(paths) + 1
    await again.stop()


@pytest.mark.parametrize("has_dropped", [False, True])
async def test_removal_that_ended_between_two_steps_is_finished(
    has_dropped: bool,
) -> None:
    world = World()
    await world.start()
    for path in ("kept", "orders"):
        await world.namespace.create_queue(path, {})
        await _send(world, path)
    if has_dropped:
        await world.namespace.delete_queue("orders")
        deletion = None
    else:
        stopped = asyncio.Event()
        world.catalog.after["remove"] = stopped.set
        deletion = asyncio.create_task(world.namespace.delete_queue("orders"))
        await stopped.wait()
    assert len(await world.catalog.inner.unfinished()) == 1
    again = _after(world)
    await world.crash(deletion)
    await again.start()
    assert [queue.path for queue in again.namespace.queues()] == ["kept"]
    await again.settle_loose_ends()
    assert len(again.store.inner.disk.fragments) == 1
    assert await again.catalog.inner.unfinished() == []
    await again.stop()


async def test_intent_of_an_old_catalog_drops_nothing_that_was_used(
    world: World,
) -> None:
    """A backup may be of a moment in which a queue was being made."""
    await world.namespace.create_queue("orders", {})
    await _send(world, "orders")
    record = world.namespace.queue("orders").record
    await world.stop()
    again = _after(world)
    again.catalog.inner = older = MemoryCatalog()
    await older.open()
    await older.intend(unfinished(record, INTENT, world.clock.now()))
    await older.close()
    with pytest.raises(CatalogIncomplete, match="1 entity with 1 message"):
        await again.start()
    assert len(world.store.inner.disk.fragments) == 1


async def test_tombstone_of_another_store_drops_nothing_here(world: World) -> None:
    await world.namespace.create_queue("orders", {})
    record = world.namespace.queue("orders").record
    elsewhere = replace(record, placement=(bytes(16),))
    await world.catalog.inner.remove(unfinished(elsewhere, TOMBSTONE, 0))
    await world.stop()
    with pytest.raises(CatalogIncomplete):
        await _after(world).start()


async def test_two_namespaces_on_one_store_leave_each_other_alone() -> None:
    first = World(name="first")
    await first.start()
    await first.namespace.create_queue("orders", {})
    await _send(first, "orders")
    await first.stop()
    second = _after(first, "second")
    await second.start()
    assert second.namespace.queues() == []
    await second.namespace.create_queue("orders", {})
    await _send(second, "orders")
    await second.namespace.delete_queue("orders")
    # A commit that fails makes memory anew from the store, with what is not ours.
    second.store.faults = [Fault(CommitFailed("no"))]
    with pytest.raises(ServerBusy):
        await second.owner.durable()
    await second.settle_loose_ends()
    await second.advance(1_000)
    await second.stop()
    again = _after(first, "FIRST")
    await again.start()
    assert again.namespace.queue("orders").counts().active == 1
    await again.stop()


async def test_schedules_of_another_namespace_keep_nobody_waiting() -> None:
    first = World(name="first")
    await first.start()
    await first.namespace.create_queue("a", {})
    for _ in range(3):
        await _send(first, "a", at=first.clock.now() + 1)
    await first.stop()
    second = _after(first, "second")
    await second.start()
    await second.namespace.create_queue("b", {})
    await _send(second, "b", at=second.clock.now() + 5)
    await second.advance(10)
    assert second.namespace.queue("b").counts().active == 1
    assert second.owner.housekeeping.next_scheduled_at == 0
    await second.stop()
    assert len(first.store.inner.disk.schedule) == 3


async def test_removal_whose_commit_failed_is_done_again(world: World) -> None:
    await world.namespace.create_queue("orders", {})
    await _send(world, "orders")
    world.store.faults = [Fault(CommitFailed("no"))]
    with pytest.raises(ServerBusy):
        await world.namespace.delete_queue("orders")
    await world.settle_loose_ends()
    await world.advance(0)
    assert world.store.inner.disk.fragments == {}
    assert await world.catalog.inner.unfinished() == []


# --- what the store knows of entities -----------------------------------------


def _known(world: World) -> dict[str, EntityRecord]:
    stored = world.store.inner.disk.entities.values()
    records = [entity_of(one) for one in stored]
    return {record.path: record for record in records if record.path}


async def test_store_knows_its_entities_as_the_catalog_does(world: World) -> None:
    queue = await world.namespace.create_queue("orders", {"max_delivery_count": 3})
    assert _known(world) == {"orders": queue.record}
    await world.namespace.update_queue("orders", {"max_delivery_count": 4})
    await world.settle_loose_ends()
    assert _known(world) == {"orders": queue.record}
    assert queue.record.description["max_delivery_count"] == 4
    await world.namespace.delete_queue("orders")
    assert _known(world) == {}


async def test_update_just_before_a_removal_leaves_no_record(world: World) -> None:
    await world.namespace.create_queue("orders", {})
    await world.namespace.update_queue("orders", {"max_delivery_count": 4})
    await world.namespace.delete_queue("orders")
    await world.settle_loose_ends()
    assert _known(world) == {}


async def test_update_whose_commit_failed_reaches_the_store_later(
    world: World,
) -> None:
    queue = await world.namespace.create_queue("orders", {})
    await world.namespace.update_queue("orders", {"max_delivery_count": 4})
    world.store.faults = [Fault(CommitFailed("no"))]
    await world.settle_loose_ends()
    await world.settle_loose_ends()
    assert _known(world) == {"orders": queue.record}


async def test_store_of_before_learns_its_entities_at_the_start(world: World) -> None:
    queue = await world.namespace.create_queue("orders", {})
    await world.stop()
    world.store.inner.disk.entities.clear()
    again = _after(world)
    await again.start()
    await again.settle_loose_ends()
    assert _known(again) == {"orders": queue.record}
    await again.stop()
