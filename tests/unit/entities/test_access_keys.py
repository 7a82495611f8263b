"""Authorization rules of the namespace and of entities: made, renewed, removed."""

import asyncio

import pytest

from twinbus.auth import sas
from twinbus.auth.claims import Claim
from twinbus.broker.descriptions.access_rule import AccessRule
from twinbus.entities.access_keys import PRIMARY, SECONDARY
from twinbus.errors import (
    ArgumentError,
    ArgumentOutOfRange,
    AuthenticationFailed,
    EntityAlreadyExists,
    MessagingEntityNotFound,
    NotAllowed,
    QuotaExceeded,
    ServerBusy,
)
from twinbus.limits import ACCESS_RULES
from twinbus.store.base import CommitFailed

from .world import World

ROOT = AccessRule(key_name="root", primary_key="of the file", rights=("Manage",))


def token(world: World, name: str, key: str, path: str = "orders") -> str:
    until = world.clock.now() + 60_000
    return sas.make(
        resource=f"sb://host/{path}", key_name=name, key=key, expires_at=until
    )


def claims_of(world: World, name: str, key: str, path: str = "orders") -> Claim:
    made = token(world, name, key, path)
    policy = world.namespace.policy
    return policy.grant_by_token(made, path, world.clock.now()).claims


async def restarted(world: World) -> World:
    await world.stop()
    again = World()
    again.store.inner.disk = world.store.inner.disk
    again.catalog.inner = world.catalog.inner
    await again.start()
    return again


@pytest.mark.parametrize("scope", ["", "orders"])
async def test_made_rule_opens_and_survives_a_restart(world: World, scope: str) -> None:
    await world.namespace.create_queue("orders", {})
    made = await world.namespace.keys.create(scope, "shop", ["Send", "Send"])
    assert made.rights == ("Send",)
    assert len({made.primary_key, made.secondary_key}) == 2
    again = await restarted(world)
    for key in (made.primary_key, made.secondary_key):
        assert claims_of(again, "shop", key) == Claim.SEND
    assert [one.rule for one in again.namespace.keys.rules(scope)] == [made]
    await again.stop()


@pytest.mark.parametrize("scope", ["", "orders"])
async def test_regenerated_key_replaces_the_old_one_alone(
    world: World, scope: str
) -> None:
    await world.namespace.create_queue("orders", {})
    keys = world.namespace.keys
    made = await keys.create(scope, "shop", ["Listen"])
    renewed = await keys.regenerate(scope, "shop", PRIMARY)
    assert renewed.secondary_key == made.secondary_key
    with pytest.raises(AuthenticationFailed):
        claims_of(world, "shop", made.primary_key)
    for key in (renewed.primary_key, made.secondary_key):
        assert claims_of(world, "shop", key) == Claim.LISTEN
    again = await keys.regenerate(scope, "shop", SECONDARY)
    assert again.primary_key == renewed.primary_key
    assert again.secondary_key != made.secondary_key


@pytest.mark.parametrize("scope", ["", "orders"])
async def test_deleted_rule_opens_nothing(world: World, scope: str) -> None:
    await world.namespace.create_queue("orders", {})
    keys = world.namespace.keys
    made = await keys.create(scope, "shop", ["Manage"])
    await keys.delete(scope, "shop")
    with pytest.raises(AuthenticationFailed):
        claims_of(world, "shop", made.primary_key)
    for change in (
        keys.delete(scope, "shop"),
        keys.regenerate(scope, "shop", PRIMARY),
    ):
        with pytest.raises(MessagingEntityNotFound, match="no authorization rule"):
            await change


async def test_key_of_an_entity_opens_no_other(world: World) -> None:
    for path in ("orders", "orders/below", "other"):
        await world.namespace.create_queue(path, {})
    made = await world.namespace.keys.create("orders", "shop", ["Manage"])
    for path in ("orders/below", "other", ""):
        with pytest.raises(AuthenticationFailed):
            claims_of(world, "shop", made.primary_key, path)


async def test_rules_of_a_topic_are_those_of_its_subscriptions(world: World) -> None:
    await world.namespace.create_topic("news", {})
    await world.namespace.create_subscription("news", "all", {})
    made = await world.namespace.keys.create("news", "reader", ["Listen"])
    path = "news/subscriptions/all"
    assert claims_of(world, "reader", made.primary_key, path) == Claim.LISTEN
    with pytest.raises(ArgumentError, match="rules of its topic apply"):
        await world.namespace.keys.create("news/Subscriptions/all", "x", ["Listen"])


@pytest.mark.parametrize("scope", ["", "orders"])
async def test_there_are_twelve_rules_at_most(world: World, scope: str) -> None:
    await world.namespace.create_queue("orders", {})
    keys = world.namespace.keys
    for number in range(ACCESS_RULES):
        await keys.create(scope, f"rule-{number}", ["Send"])
    with pytest.raises(QuotaExceeded, match=f"{ACCESS_RULES} are the limit"):
        await keys.create(scope, "one-more", ["Send"])
    # What exists can be changed all the same.
    await keys.regenerate(scope, "rule-3", PRIMARY)


@pytest.mark.parametrize(
    ("name", "rights", "error"),
    [
        ("shop", [], ArgumentError),
        ("shop", ["Fly"], ArgumentOutOfRange),
        ("x" * 257, ["Send"], ArgumentOutOfRange),
        ("a\nb", ["Send"], ArgumentOutOfRange),
        ("", ["Send"], ArgumentError),
    ],
)
async def test_rule_that_makes_no_sense_is_refused(
    world: World, name: str, rights: list[str], error: type[Exception]
) -> None:
    with pytest.raises(error):
        await world.namespace.keys.create("", name, rights)
    assert world.namespace.keys.rules("") == []


async def test_name_is_used_once(world: World) -> None:
    keys = world.namespace.keys
    await keys.create("", "shop", ["Send"])
    with pytest.raises(EntityAlreadyExists):
        await keys.create("", "shop", ["Listen"])
    assert len(keys.rules("")) == 1


async def test_rules_of_the_settings_are_shown_and_not_changed(world: World) -> None:
    world.namespace.access.fixed = (ROOT,)
    keys = world.namespace.keys
    assert [(one.rule, one.is_fixed) for one in keys.rules("")] == [(ROOT, True)]
    for change in (
        keys.create("", "root", ["Send"]),
        keys.delete("", "root"),
        keys.regenerate("", "root", PRIMARY),
    ):
        with pytest.raises(NotAllowed, match="settings of the server"):
            await change


async def test_changes_at_the_same_time_are_all_kept(world: World) -> None:
    """Each begins with what the one before it has made."""
    await world.namespace.create_queue("orders", {})
    keys = world.namespace.keys
    names = [f"rule-{number}" for number in range(6)]
    for scope in ("", "orders"):
        await asyncio.gather(*(keys.create(scope, name, ["Send"]) for name in names))
        assert [one.rule.key_name for one in keys.rules(scope)] == names


async def test_change_that_is_not_stored_has_not_happened(world: World) -> None:
    keys = world.namespace.keys
    made = await keys.create("", "shop", ["Send"])
    world.catalog.error = CommitFailed("no room")
    with pytest.raises(ServerBusy):
        await keys.regenerate("", "shop", PRIMARY)
    assert claims_of(world, "shop", made.primary_key) == Claim.SEND


async def test_new_entity_of_the_same_name_has_none_of_the_old_rules(
    world: World,
) -> None:
    await world.namespace.create_queue("orders", {})
    made = await world.namespace.keys.create("orders", "shop", ["Send"])
    await world.namespace.delete_queue("orders")
    await world.namespace.create_queue("orders", {})
    with pytest.raises(AuthenticationFailed):
        claims_of(world, "shop", made.primary_key)
