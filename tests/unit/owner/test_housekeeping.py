"""What becomes due on disk: schedules, expiry, purges."""

import pytest
from unit.entities.world import NOW, Fault, World, message

from twinbus.broker import schedule
from twinbus.broker.changes import LedgerId
from twinbus.broker.fragment import Fragment
from twinbus.broker.message import Message
from twinbus.store.base import CommitFailed, StoreFull


@pytest.fixture
async def queue(world: World) -> Fragment:
    made = await world.namespace.create_queue("orders", {})
    return made.fragment()


async def scheduled(world: World, queue: Fragment, *delays: int) -> None:
    for delay in delays:
        later = Message(b"later", 0, 0, NOW + delay)
        schedule.schedule(queue, later, 1, world.clock.now(), world.owner.changes)
        world.owner.expect(later.scheduled_at)
    await world.owner.durable()


async def test_scheduled_messages_become_active_when_they_are_due(
    world: World, queue: Fragment
) -> None:
    await scheduled(world, queue, 3_000, 1_000, 2_000)
    await world.advance(999)
    assert queue.window.ready_count() == 0
    await world.advance(1)
    assert queue.window.ready_count() == 1
    await world.advance(2_000)
    assert queue.window.ready_count() == 3
    assert queue.scheduled_count == 0
    assert not world.owner.has_due_work()


async def test_more_than_a_portion_becomes_active_too(
    world: World, queue: Fragment
) -> None:
    await scheduled(world, queue, *[1_000] * 1_500)
    await world.advance(1_000)
    assert (queue.active_count, queue.scheduled_count) == (1_500, 0)


async def test_activation_that_failed_is_tried_again(
    world: World, queue: Fragment
) -> None:
    await scheduled(world, queue, 1_000)
    world.store.faults = [Fault(CommitFailed("no"))]
    await world.advance(1_000)
    await world.advance(60_000)
    assert (queue.active_count, queue.scheduled_count) == (1, 0)


async def test_messages_that_only_the_disk_has_expire(
    world: World, queue: Fragment
) -> None:
    for _ in range(40):
        queue.enqueue(message(ttl_ms=1_000), 1, world.clock.now(), world.owner.changes)
    await world.owner.durable()
    for _ in range(5):
        await world.advance(60_000)
    assert (queue.active_count, queue.size_bytes) == (0, 0)


async def test_full_disk_puts_clearing_up_off(
    world: World, queue: Fragment, caplog: pytest.LogCaptureFixture
) -> None:
    full = StoreFull("full")
    world.store.errors = {"trim": full, "purge": full}
    await world.namespace.delete_queue("orders")
    await world.advance(60_000)
    assert world.fatal == []
    assert "put off" in caplog.text
    world.store.errors = {}
    await world.advance(60_000)
    assert world.store.inner.disk.dropped == set()


async def test_old_ids_are_forgotten_in_portions(world: World, queue: Fragment) -> None:
    world.owner.changes.ledger_ids += [
        LedgerId(
            fragment_number=queue.number,
            unique_id=number.to_bytes(4, "big"),
            forget_at=world.clock.now() + 1_000,
        )
        for number in range(25_000)
    ]
    await world.owner.durable()
    ids = world.store.inner.disk.ids
    assert len(ids) == 25_000
    await world.advance(61_000)
    assert ids == {}


async def test_rows_of_deleted_queues_are_purged_in_portions(
    world: World, queue: Fragment
) -> None:
    for _ in range(2_500):
        queue.enqueue(message(), 1, world.clock.now(), world.owner.changes)
    await world.owner.durable()
    await world.namespace.delete_queue("orders")
    await world.settled()
    assert world.store.inner.disk.dropped == set()
    assert queue.row_id(2_500) not in world.store.inner.disk.active


async def test_topic_is_purged_after_the_bodies_that_its_subscriptions_share(
    world: World,
) -> None:
    topic = await world.namespace.create_topic("news", {})
    fragment = topic.fragment()
    numbers = [fragment.number]
    for name in ("one", "two"):
        made = await world.namespace.create_subscription("news", name, {})
        numbers.append(made.fragment().number)
    for _ in range(1_500):
        fragment.enqueue(message(), 1, world.clock.now(), world.owner.changes)
    await world.owner.durable()
    disk = world.store.inner.disk
    assert disk.bodies.has_any_of(fragment.number)
    assert fragment.number == min(numbers), "it comes first by number"
    await world.namespace.delete_topic("news")
    await world.settled()
    assert disk.dropped == set()
    assert not disk.bodies.has_any_of(fragment.number)
