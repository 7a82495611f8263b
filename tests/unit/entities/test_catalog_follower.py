"""What one broker does to the entities, others follow."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from unit.cluster.world import ClusterWorld, Member, free_lease

from twinbus.cluster.terms import BEAT_MS
from twinbus.entities.access_keys import PRIMARY
from twinbus.errors import (
    AuthenticationFailed,
    EntityAlreadyExists,
    MessagingEntityNotFound,
    ServerBusy,
    ServiceBusError,
)
from twinbus.rules.rule import Rule, default_rule
from twinbus.store.catalog import EntityRecord

SOON_MS = 5 * BEAT_MS


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ClusterWorld]:
    world = ClusterWorld(tmp_path)
    await world.prepare()
    for name in "ab":
        await world.join(name)
    await world.until(world.is_shared_equally, SOON_MS)
    yield world
    await world.stop()


def both(world: ClusterWorld) -> tuple[Member, Member]:
    a, b = world.members
    return a, b


def names(member: Member) -> set[str]:
    return {entity.path for entity in member.namespace.entities()}


async def test_created_entities_appear(world: ClusterWorld) -> None:
    a, b = both(world)
    await a.namespace.create_queue("q", {"max_delivery_count": 3})
    await a.namespace.create_topic("t", {})
    await a.namespace.create_subscription("t", "s", {})
    await world.pass_time(BEAT_MS)
    assert names(b) == {"q", "t", "t/Subscriptions/s"}
    assert b.namespace.queue("q").description.max_delivery_count == 3
    assert not b.namespace.queue("q").is_available()
    assert [one.path for one in b.namespace.subscriptions("t")] == ["t/Subscriptions/s"]


async def test_rules_of_the_namespace_are_followed(world: ClusterWorld) -> None:
    a, b = both(world)
    made = await a.namespace.keys.create("", "shop", ["Send"])
    await world.pass_time(BEAT_MS)
    assert [one.rule for one in b.namespace.keys.rules("")] == [made]
    assert b.namespace.policy.grant_by_key("shop", made.primary_key)
    renewed = await b.namespace.keys.regenerate("", "shop", PRIMARY)
    await world.pass_time(BEAT_MS)
    with pytest.raises(AuthenticationFailed):
        a.namespace.policy.grant_by_key("shop", made.primary_key)
    assert a.namespace.policy.grant_by_key("shop", renewed.primary_key)


async def test_updates_are_followed(world: ClusterWorld) -> None:
    a, b = both(world)
    await a.namespace.create_queue("q", {})
    await world.pass_time(BEAT_MS)
    await a.namespace.update_queue("q", {"max_delivery_count": 7})
    await world.pass_time(BEAT_MS)
    assert b.namespace.queue("q").description.max_delivery_count == 7
    assert b.namespace.queue("q").record == a.namespace.queue("q").record


async def test_removals_are_followed(world: ClusterWorld) -> None:
    a, b = both(world)
    await a.namespace.create_topic("t", {})
    await a.namespace.create_subscription("t", "s", {})
    await world.pass_time(BEAT_MS)
    await a.namespace.delete_topic("t")
    await world.pass_time(BEAT_MS)
    assert names(b) == set()
    assert await a.catalog.unfinished() == [], "its owner has dropped it"


async def test_path_that_was_used_again_is_another_entity(world: ClusterWorld) -> None:
    a, b = both(world)
    await a.namespace.create_topic("x", {})
    await a.namespace.create_subscription("x", "s", {})
    await world.pass_time(BEAT_MS)
    await a.namespace.delete_topic("x")
    await a.namespace.create_queue("x", {})
    await world.pass_time(BEAT_MS)
    assert names(b) == {"x"}
    assert b.namespace.queue("x").record == a.namespace.queue("x").record


async def test_path_that_was_used_again_in_vain_is_gone(world: ClusterWorld) -> None:
    a, b = both(world)
    await a.namespace.create_queue("q", {})
    await world.pass_time(BEAT_MS)
    # The catalog remembers the last removal of each path.
    for _ in range(2):
        await a.namespace.delete_queue("q")
        await a.namespace.create_queue("Q", {})
    await a.namespace.delete_queue("q")
    await world.pass_time(BEAT_MS)
    assert names(b) == names(a) == set()


async def test_path_is_made_once(world: ClusterWorld) -> None:
    a, b = both(world)
    await a.namespace.create_queue("q", {})
    with pytest.raises(EntityAlreadyExists):
        await b.namespace.create_queue("Q", {})
    await world.pass_time(BEAT_MS)
    assert a.namespace.queue("q").record == b.namespace.queue("q").record
    for member in (a, b):
        for one in member.shared:
            assert one.owner.table.orphans() == set(), "nothing is left of it"


async def test_deleted_topic_takes_no_subscription(world: ClusterWorld) -> None:
    a, b = both(world)
    await a.namespace.create_topic("t", {})
    await world.pass_time(BEAT_MS)
    await a.namespace.delete_topic("t")
    with pytest.raises((MessagingEntityNotFound, ServerBusy)):
        await b.namespace.create_subscription("t", "s", {})
    with pytest.raises(MessagingEntityNotFound):
        await b.namespace.update_topic("t", {})


async def test_change_is_tried_again_after_that_of_another(
    world: ClusterWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = both(world)
    follow = a.namespace.follower._follow

    async def follow_and_be_late() -> None:
        await follow()
        monkeypatch.undo()
        await b.namespace.create_queue("other", {})

    monkeypatch.setattr(a.namespace.follower, "_follow", follow_and_be_late)
    await a.namespace.create_queue("q", {})
    await world.pass_time(2 * BEAT_MS)
    assert names(a) == names(b) == {"other", "q"}


async def test_path_that_another_was_quicker_with_is_not_made_twice(
    world: ClusterWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = both(world)
    follow = a.namespace.follower._follow

    async def follow_and_be_late() -> None:
        await follow()
        monkeypatch.undo()
        await b.namespace.create_queue("q", {"max_delivery_count": 3})

    monkeypatch.setattr(a.namespace.follower, "_follow", follow_and_be_late)
    with pytest.raises(EntityAlreadyExists):
        await a.namespace.create_queue("q", {})
    await world.pass_time(2 * SOON_MS)
    assert a.namespace.queue("q").description.max_delivery_count == 3
    assert await a.catalog.unfinished() == []


async def test_change_that_others_always_forestall_is_refused(
    world: ClusterWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = both(world)
    await a.namespace.create_queue("q", {})
    follow, tries = a.namespace.follower._follow, 0

    async def follow_and_be_late() -> None:
        nonlocal tries
        await follow()
        tries += 1
        await b.namespace.create_queue(f"other-{tries}", {})

    monkeypatch.setattr(a.namespace.follower, "_follow", follow_and_be_late)
    with pytest.raises(ServerBusy, match="Another broker changed entities"):
        await a.namespace.update_queue("q", {"max_delivery_count": 3})
    monkeypatch.undo()
    assert tries > 1
    await world.pass_time(2 * BEAT_MS)
    assert names(a) == names(b) == {"q", *(f"other-{n + 1}" for n in range(tries))}
    assert b.namespace.queue("q").description.max_delivery_count == 10


async def test_creation_of_an_owner_that_was_replaced_leaves_nothing(
    world: ClusterWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has made the fragments, and is frozen before it enters the entity."""
    a, b = both(world)
    create = a.namespace.stores.create

    async def create_and_freeze(*given: object) -> object:
        made = await create(*given)  # type: ignore[arg-type]
        a.is_frozen = True
        for path in list(a.served()):
            free_lease(path)
        await world.until(lambda: len(b.served()) == 4, 3 * 6_000)
        a.is_frozen = False
        return made

    monkeypatch.setattr(a.namespace.stores, "create", create_and_freeze)
    with pytest.raises(ServiceBusError, match="taken over by another process"):
        await a.namespace.create_queue("q", {})
    await world.pass_time(2 * SOON_MS)
    assert names(a) == names(b) == set()
    assert await a.catalog.unfinished() == []


async def test_catalog_that_was_made_anew_is_read_whole(
    world: ClusterWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = both(world)
    await a.namespace.create_queue("q", {})
    await world.pass_time(BEAT_MS)
    b.namespace.follower._identity = b"of another one"
    b.namespace._entities.clear()
    await b.namespace.follower.follow()
    assert names(b) == {"q"}


async def test_rules_come_with_the_store(world: ClusterWorld) -> None:
    a, b = both(world)
    await a.namespace.create_topic("t", {})
    rule = default_rule(a.clock.now())
    await a.namespace.create_subscription("t", "s", {}, [rule])
    await world.pass_time(BEAT_MS)
    await world.leave(a)
    await world.until(world.is_shared_equally, SOON_MS)
    found: list[Rule] = b.namespace.subscription("t", "s").rules()
    assert [one.name for one in found] == [rule.name]


async def test_rules_come_with_the_store_while_a_subscription_is_entered(
    world: ClusterWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The successor has followed the catalog already, and does not serve yet."""
    a, b = both(world)
    await a.namespace.create_topic("t", {})
    await world.pass_time(BEAT_MS)
    put = a.namespace.follower.put
    entries = b.namespaces._entries
    check_late = entries.check_late
    waits, goes_on = asyncio.Event(), asyncio.Event()

    async def check_when_told(*given: object) -> object:
        waits.set()
        await goes_on.wait()
        return await check_late(*given)  # type: ignore[arg-type]

    async def put_late(record: EntityRecord) -> None:
        a.is_frozen = True
        for path in list(a.served()):
            free_lease(path)
        await world.until(waits.is_set, 3 * 6_000)
        try:
            await put(record)
        finally:
            goes_on.set()

    monkeypatch.setattr(entries, "check_late", check_when_told)
    monkeypatch.setattr(a.namespace.follower, "put", put_late)
    rule = default_rule(a.clock.now())
    # Its store was taken over, or another broker has changed the catalog.
    with contextlib.suppress(ServiceBusError):
        await a.namespace.create_subscription("t", "s", {}, [rule])
    monkeypatch.undo()
    await world.until(lambda: len(b.served()) == 4, 3 * 6_000)
    await world.pass_time(2 * SOON_MS)
    if "t/Subscriptions/s" not in names(b):
        await b.namespace.create_subscription("t", "s", {}, [rule])
    found: list[Rule] = b.namespace.subscription("t", "s").rules()
    assert [one.name for one in found] == [rule.name]
