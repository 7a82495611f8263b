"""Several namespaces on the same stores: made, kept apart, removed, and found again."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from twinbus.broker.descriptions.access_rule import ROOT_KEY_NAME
from twinbus.entities.namespace import Namespace
from twinbus.entities.namespace_making import NamespaceMaking, OwnPorts
from twinbus.errors import (
    ArgumentError,
    AuthenticationFailed,
    EntityAlreadyExists,
    MessagingEntityNotFound,
    NotAllowed,
    QuotaExceeded,
)
from twinbus.store.base import CommitFailed

from .world import World


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World(max_entities=1)
    await made.start()
    yield made
    await made.stop()


def making_of(world: World, *declared: str) -> NamespaceMaking:
    return NamespaceMaking(world.namespaces, declared, OwnPorts())


async def next_life(world: World) -> World:
    """Another process on the same stores and catalog."""
    await world.stop()
    again = World()
    again.store.inner, again.catalog.inner = world.store.inner, world.catalog.inner
    await again.start()
    return again


def root_key(namespace: Namespace) -> str:
    [root] = [one for one in namespace.access.stored if one.key_name == ROOT_KEY_NAME]
    return root.primary_key


async def test_same_path_in_two_namespaces(world: World) -> None:
    shop = await making_of(world).create("Shop")
    mine = await world.namespace.create_queue("orders", {})
    theirs = await shop.create_queue("orders", {"max_delivery_count": 3})
    assert mine.record.generation != theirs.record.generation
    assert world.namespace.queue("orders") is mine
    assert shop.queue("ORDERS") is theirs
    await world.namespace.delete_queue("orders")
    assert shop.queue("orders") is theirs


async def test_quotas_are_counted_for_each(world: World) -> None:
    shop = await making_of(world).create("shop")
    await world.namespace.create_queue("one", {})
    await shop.create_queue("one", {})
    for namespace in (world.namespace, shop):
        with pytest.raises(QuotaExceeded):
            await namespace.create_queue("two", {})


async def test_key_of_one_opens_nothing_in_another(world: World) -> None:
    making = making_of(world)
    shop, lab = await making.create("shop"), await making.create("lab")
    shop.policy.grant_by_key(ROOT_KEY_NAME, root_key(shop))
    for other in (world.namespace, lab):
        with pytest.raises(AuthenticationFailed):
            other.policy.grant_by_key(ROOT_KEY_NAME, root_key(shop))


async def test_they_are_there_after_a_restart(world: World) -> None:
    shop = await making_of(world).create("shop", [5673])
    await shop.create_topic("news", {})
    await shop.create_subscription("news", "all", {})
    key, created_at = root_key(shop), shop.created_at
    again = await next_life(world)
    found = again.namespaces.named("SHOP")
    assert found is not None and found is not again.namespace
    assert (root_key(found), found.created_at) == (key, created_at)
    assert [rule.name for rule in found.subscription("news", "all").rules()] == [
        "$Default"
    ]
    assert making_of(again).shown()[1].ports == (5673,)
    assert again.namespace.entities() == []
    await again.stop()


async def test_forwarding_stays_inside(world: World) -> None:
    shop = await making_of(world).create("shop")
    await world.namespace.create_queue("target", {})
    with pytest.raises(MessagingEntityNotFound):
        await shop.create_queue("source", {"forward_to": "target"})


@pytest.mark.parametrize("name", ["", "1shop", "sh.op", "shop-", "sh op", "s" * 51])
async def test_names_are_labels_of_hosts(world: World, name: str) -> None:
    with pytest.raises(ArgumentError, match="name of a namespace"):
        await making_of(world).create(name)


async def test_name_is_used_once(world: World) -> None:
    making = making_of(world)
    await making.create("shop")
    for name in ("SHOP", world.namespace.name):
        with pytest.raises(EntityAlreadyExists):
            await making.create(name)


async def test_removal_takes_all_that_is_in_it(world: World) -> None:
    making = making_of(world)
    shop = await making.create("shop")
    await shop.create_queue("orders", {})
    kept = await world.namespace.create_queue("orders", {})
    await making.remove("shop")
    assert world.namespaces.named("shop") is None
    assert shop.entities() == [] and shop.is_removed
    with pytest.raises(MessagingEntityNotFound):
        making.found("shop")
    await world.settle_loose_ends()
    assert await world.catalog.unfinished() == []
    stored = {one.generation for one in await world.store.inner.entities()}
    assert stored == {kept.record.generation, world.namespace.own.generation}
    again = await next_life(world)
    assert [one.name for one in again.namespaces] == ["space"]
    # The name is free.
    made = await making_of(again).create("shop")
    assert made.entities() == []
    await again.stop()


async def test_removal_that_ended_in_the_middle_is_completed() -> None:
    world = World()
    await world.start()
    making = making_of(world)
    shop = await making.create("shop")
    await shop.create_queue("orders", {})
    await making.remove("shop")
    # Nothing has dropped the copies of records yet: a crash comes first.
    again = World()
    again.store.inner, again.catalog.inner = world.store.inner, world.catalog.inner
    await world.crash(None)
    await again.start()
    await again.settle_loose_ends()
    assert await again.catalog.unfinished() == []
    assert again.owner.table.fragment_count() == 0
    await again.stop()


@pytest.mark.parametrize(("step", "is_there"), [("before put", False), ("put", True)])
async def test_creation_that_was_killed_is_whole_or_not_at_all(
    step: str, is_there: bool
) -> None:
    world = World()
    await world.start()
    stopped = asyncio.Event()
    world.catalog.after[step] = stopped.set
    creation = asyncio.create_task(making_of(world).create("shop"))
    await stopped.wait()
    again = World()
    again.store.inner, again.catalog.inner = world.store.inner, world.catalog.inner
    await world.crash(creation)
    await again.start()
    making = making_of(again)
    assert [one.name for one in making.shown()] == ["space", *["shop"] * is_there]
    if not is_there:
        await making.create("shop")
    assert root_key(making.found("shop"))
    await again.settle_loose_ends()
    await again.stop()


async def test_removal_that_was_killed_after_the_catalog_knew_is_completed() -> None:
    world = World()
    await world.start()
    making = making_of(world)
    shop = await making.create("shop")
    await shop.create_queue("orders", {})
    stopped = asyncio.Event()
    world.catalog.after["remove"] = stopped.set
    removal = asyncio.create_task(making.remove("shop"))
    await stopped.wait()
    again = World()
    again.store.inner, again.catalog.inner = world.store.inner, world.catalog.inner
    await world.crash(removal)
    await again.start()
    assert [one.name for one in again.namespaces] == ["space"]
    await again.settle_loose_ends()
    assert await again.catalog.unfinished() == []
    assert again.owner.table.fragment_count() == 0
    stored = [one.generation for one in await again.store.inner.entities()]
    assert stored == [again.namespace.own.generation]
    await again.stop()


async def test_removal_that_the_catalog_refuses_changes_nothing(world: World) -> None:
    making = making_of(world)
    shop = await making.create("shop")
    await shop.create_queue("orders", {})
    world.catalog.error_of_removal = CommitFailed("no room")
    with pytest.raises(Exception, match="no room"):
        await making.remove("shop")
    assert world.namespaces.named("shop") is shop
    assert [entity.path for entity in shop.entities()] == ["orders"]
    await making.remove("shop")


@pytest.mark.parametrize(
    "change",
    [
        lambda shop: shop.create_queue("orders", {}),
        lambda shop: shop.keys.create("", "other", ["Send"]),
    ],
)
async def test_nothing_is_made_in_one_that_is_gone(
    world: World, change: Callable[[Namespace], Awaitable[object]]
) -> None:
    making = making_of(world)
    shop = await making.create("shop")
    await making.remove("shop")
    with pytest.raises(MessagingEntityNotFound, match="was removed"):
        await change(shop)
    await world.settle_loose_ends()
    assert world.owner.table.fragment_count() == 0


async def test_default_and_declared_ones_are_not_removed(world: World) -> None:
    making = making_of(world, "Shop")
    await making.declare("shop", [])
    with pytest.raises(NotAllowed, match="default"):
        await making.remove("space")
    with pytest.raises(NotAllowed, match="configuration file"):
        await making.remove("shop")
    assert [one.is_declared for one in making.shown()] == [False, True]


async def test_declared_one_keeps_its_keys_and_gets_its_ports(world: World) -> None:
    making = making_of(world, "shop")
    key = root_key(await making.declare("shop", []))
    again = await making.declare("shop", [5673])
    assert root_key(again) == key
    assert making.shown_one(again).ports == (5673,)


async def test_root_rule_of_a_namespace_is_renewed_and_not_deleted(
    world: World,
) -> None:
    shop = await making_of(world).create("shop")
    before = root_key(shop)
    await shop.keys.regenerate("", ROOT_KEY_NAME, "primary")
    assert root_key(shop) != before
    with pytest.raises(NotAllowed, match="cannot be deleted"):
        await shop.keys.delete("", ROOT_KEY_NAME)


async def test_former_default_is_neither_served_nor_taken(world: World) -> None:
    await world.namespace.create_queue("orders", {})
    await world.stop()
    again = World(name="other")
    again.store.inner, again.catalog.inner = world.store.inner, world.catalog.inner
    await again.start()
    assert [one.name for one in again.namespaces] == ["other"]
    with pytest.raises(EntityAlreadyExists, match="under other settings"):
        await making_of(again).create("space")
    await again.stop()
