"""Rules of partitioned subscriptions: in the catalog, and in no transaction."""

import pytest
from unit.entities.world import World

from twinbus.errors import EntityAlreadyExists, FragmentUnavailable, NotAllowed
from twinbus.operations.rules import add_rule, list_rules, remove_rule
from twinbus.operations.sending import send
from twinbus.rules.filters import FalseFilter
from twinbus.rules.rule import Rule, default_rule

from .callers import opened
from .spread import FRAGMENTS, encoded, fragments, key_in, owner_at, take_away
from .test_locks import enlistment

PATH = "events/Subscriptions/all"


async def subscribed(world: World) -> None:
    await world.namespace.create_topic("events", {"enable_partitioning": True})
    await world.namespace.create_subscription("events", "all", {})


def rule(name: str) -> Rule:
    return Rule(name, FalseFilter(), None, 0)


async def test_rules_hold_for_all_fragments(spread: World) -> None:
    await subscribed(spread)
    await add_rule(opened(spread, PATH), rule("none"))
    with pytest.raises(EntityAlreadyExists):
        await add_rule(opened(spread, PATH), rule("none"))
    await remove_rule(opened(spread, PATH), "$Default")
    [kept] = await list_rules(opened(spread, PATH), 0, 9)
    assert kept.name == "none"
    for index in range(FRAGMENTS):
        await send(opened(spread, "events"), [encoded(key=key_in(index))])
    held = [one.active_count for one in fragments(spread, PATH)]
    assert held == [0] * FRAGMENTS
    await add_rule(opened(spread, PATH), default_rule(0))
    for index in range(FRAGMENTS):
        await send(opened(spread, "events"), [encoded(key=key_in(index))])
    held = [one.active_count for one in fragments(spread, PATH)]
    assert held == [1] * FRAGMENTS


async def test_transaction_changes_no_rules(spread: World) -> None:
    await subscribed(spread)
    transaction = enlistment(spread)
    with pytest.raises(NotAllowed, match="cannot be changed in a transaction"):
        await add_rule(opened(spread, PATH), rule("none"), transaction)
    with pytest.raises(NotAllowed, match="cannot be changed in a transaction"):
        await remove_rule(opened(spread, PATH), "$Default", transaction)
    assert transaction.work(spread.clock.now()) == []


async def test_transaction_changes_rules_of_a_conventional_one(world: World) -> None:
    await world.namespace.create_topic("events", {})
    await world.namespace.create_subscription("events", "all", {})
    transaction = enlistment(world)
    await add_rule(opened(world, PATH), rule("none"), transaction)
    assert len(transaction.work(world.clock.now())) == 1


async def test_rules_stay_as_they_are_while_a_store_is_away(several: World) -> None:
    await subscribed(several)
    await take_away(several, owner_at(several, 1, PATH))
    with pytest.raises(FragmentUnavailable):
        await add_rule(opened(several, PATH), rule("none"))
    [kept] = await list_rules(opened(several, PATH), 0, 9)
    assert kept.name == "$Default"
