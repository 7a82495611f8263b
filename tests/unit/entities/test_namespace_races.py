"""Administrators that change the same entity at once: the changes are made in turn.

The catalog of this world suspends at every write, like one on another machine.
"""

import asyncio
from collections.abc import Awaitable

import pytest

from twinbus.entities.topic_quotas import TopicQuotas
from twinbus.errors import MessagingEntityNotFound, QuotaExceeded, ServiceBusError

from .world import World


async def outcomes(*changes: Awaitable[object]) -> list[type | None]:
    """Do all at once; the error of each, or None."""
    results = await asyncio.gather(*changes, return_exceptions=True)
    errors: list[type | None] = []
    for result in results:
        if isinstance(result, BaseException):
            assert isinstance(result, ServiceBusError), repr(result)
        errors.append(type(result) if isinstance(result, ServiceBusError) else None)
    return errors


async def after_restart(world: World) -> list[str]:
    """Paths of the entities; what does not fit together ends the start."""
    await world.stop()
    again = World()
    again.store.inner.disk = world.store.inner.disk
    again.catalog.inner = world.catalog.inner
    await again.start()
    found = [entity.path for entity in again.namespace.entities()]
    await again.stop()
    return found


async def test_one_of_two_removals_finds_nothing(world: World) -> None:
    namespace = world.namespace
    await namespace.create_queue("orders", {})
    removals = [namespace.delete_queue("orders") for _ in range(2)]
    assert await outcomes(*removals) == [None, MessagingEntityNotFound]
    assert await after_restart(world) == []


async def test_update_does_not_bring_back_what_is_removed(world: World) -> None:
    namespace = world.namespace
    await namespace.create_queue("orders", {})
    assert await outcomes(
        namespace.delete_queue("orders"),
        namespace.update_queue("orders", {"max_delivery_count": 3}),
    ) == [None, MessagingEntityNotFound]
    assert await after_restart(world) == []


async def test_two_updates_do_not_undo_each_other(world: World) -> None:
    namespace = world.namespace
    queue = await namespace.create_queue("orders", {})
    await asyncio.gather(
        namespace.update_queue("orders", {"max_delivery_count": 3}),
        namespace.update_queue("orders", {"user_metadata": "new"}),
    )
    assert queue.description.max_delivery_count == 3
    assert queue.description.user_metadata == "new"


async def test_topic_goes_with_a_subscription_that_is_being_made(world: World) -> None:
    namespace = world.namespace
    await namespace.create_topic("news", {})
    await namespace.create_subscription("news", "old", {})
    making = asyncio.create_task(namespace.create_subscription("news", "new", {}))
    await world.owner.durable()
    # Its fragment is durable, and it waits for the catalog.
    await outcomes(namespace.delete_topic("news"), making)
    assert await after_restart(world) == []


async def test_two_creations_do_not_pass_the_limit_together() -> None:
    world = World(topic_quotas=TopicQuotas(subscriptions=1))
    await world.start()
    namespace = world.namespace
    await namespace.create_topic("news", {})
    creations = [namespace.create_subscription("news", name, {}) for name in "ab"]
    assert await outcomes(*creations) == [None, QuotaExceeded]
    assert await after_restart(world) == ["news", "news/Subscriptions/a"]


async def test_other_entity_of_the_same_path_is_not_removed(world: World) -> None:
    namespace = world.namespace
    old = await namespace.create_queue("orders", {})
    await namespace.delete_queue("orders")
    new = await namespace.create_queue("orders", {})
    with pytest.raises(MessagingEntityNotFound):
        await namespace.delete(old)
    assert namespace.queue("orders") is new


async def test_entity_that_comes_into_use_is_not_idle_any_more(world: World) -> None:
    """While others are being removed."""
    namespace = world.namespace
    for name in ("first", "second"):
        await namespace.create_queue(name, {"auto_delete_on_idle_ms": 300_000})
    world.clock.advance(300_000)
    namespace.idle.tick(world.clock.now())
    namespace.queue("second").used_at = world.clock.now()
    await namespace.idle.finished()
    assert [queue.path for queue in namespace.queues()] == ["second"]
