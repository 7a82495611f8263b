"""Entities of a configuration: created, updated, or refused as a whole."""

import pytest

from twinbus.config.config import Config, ConfigError
from twinbus.config.entities import (
    DeclaredEntities,
    DeclaredSubscription,
    DeclaredTopic,
)
from twinbus.entities.declared_entities import make_declared
from twinbus.entities.topic_quotas import TopicQuotas
from twinbus.errors import ArgumentOutOfRange, QuotaExceeded
from twinbus.rules.rule import Rule
from twinbus.testing import rule

from .world import NOW, World


async def make(world: World, config: Config) -> None:
    entities = DeclaredEntities(queues=config.queues, topics=config.topics)
    await make_declared(world.namespace, entities, config.file, world.clock.now())


def billing(*rules: Rule, **properties: object) -> Config:
    subscription = DeclaredSubscription(properties=properties, rules=rules)
    topic = DeclaredTopic(subscriptions={"billing": subscription})
    return Config(topics={"orders": topic}, file="bus.toml")


def rules_of(world: World) -> dict[str, int]:
    """Names, and when each was made."""
    found = world.namespace.subscription("orders", "billing").rules()
    return {rule.name: rule.created_at for rule in found}


async def test_entities_are_made_with_their_rules(world: World) -> None:
    large = rule("large", sql_filter="amount > 100")
    config = billing(large, max_delivery_count=3)
    await make(world, config)
    subscription = world.namespace.subscription("orders", "billing")
    assert subscription.description.max_delivery_count == 3
    assert rules_of(world) == {"large": NOW}


async def test_a_subscription_without_declared_rules_gets_everything(
    world: World,
) -> None:
    topic = DeclaredTopic(subscriptions={"billing": DeclaredSubscription()})
    await make(world, Config(topics={"orders": topic}))
    assert list(rules_of(world)) == ["$Default"]
    await world.namespace.remove_rule("orders", "billing", "$Default")
    await make(world, Config(topics={"orders": topic}))
    assert rules_of(world) == {}


async def test_rules_are_brought_to_what_the_file_says(world: World) -> None:
    same = rule("same", sql_filter="a = 1")
    await make(world, billing(same, rule("changed", sql_filter="a = 1"), rule("gone")))
    world.clock.advance(5)
    world.store.commits.clear()
    same_again = rule("same", sql_filter="a = 1")
    changed = rule("changed", correlation_filter={"label": "x"})
    await make(world, billing(same_again, changed, rule("new")))
    assert rules_of(world) == {"same": NOW, "changed": NOW + 5, "new": NOW + 5}
    # All or none of it, whenever the process ends.
    assert len(world.store.commits) == 1


async def test_an_entity_that_is_as_declared_is_not_updated(world: World) -> None:
    config = billing(max_delivery_count=3, forward_to="orders")
    await make(world, config)
    before = world.namespace.subscription("orders", "billing").record
    world.clock.advance(5)
    await make(world, config)
    assert world.namespace.subscription("orders", "billing").record is before


async def test_an_entity_may_forward_to_one_declared_later(world: World) -> None:
    queues = {
        "first": {"forward_to": "second", "lock_duration_ms": 5_000},
        "second": {"forward_dead_lettered_messages_to": "events"},
    }
    await make(world, Config(queues=queues, topics={"events": DeclaredTopic()}))
    first = world.namespace.queue("first").description
    assert (first.forward_to, first.lock_duration_ms) == ("second", 5_000)
    second = world.namespace.queue("second").description
    assert second.forward_dead_lettered_messages_to == "events"


async def test_a_target_that_is_nowhere_is_refused_before_anything_is_made(
    world: World,
) -> None:
    queues = {"first": {}, "second": {"forward_to": "nowhere"}}
    with pytest.raises(ConfigError, match=r"queue 'second': .* forward to 'nowhere'"):
        await make(world, Config(queues=queues))
    assert world.namespace.queues() == []


async def test_what_cannot_be_changed_is_refused_before_anything_is(
    world: World,
) -> None:
    await make(world, billing(requires_session=True))
    changed = Config(
        queues={"first": {}},
        topics=billing(requires_session=False).topics,
        file="b.toml",
    )
    expected = (
        "^b.toml: subscription 'orders/Subscriptions/billing': Property "
        "'requires_session' of 'orders/Subscriptions/billing' is True and cannot be "
        "changed to False"
    )
    with pytest.raises(ConfigError, match=expected):
        await make(world, changed)
    assert world.namespace.queues() == []


async def test_an_entity_of_another_kind_is_refused(world: World) -> None:
    await make(world, Config(queues={"orders": {}}))
    with pytest.raises(ConfigError, match="topic 'Orders': There is a queue of that"):
        await make(world, Config(topics={"Orders": DeclaredTopic()}))


async def test_a_size_beyond_the_setting_is_refused(world: World) -> None:
    with pytest.raises(ConfigError, match="setting 'max_entity_megabytes' to allow"):
        await make(world, Config(queues={"orders": {"max_size_in_megabytes": 10_240}}))


async def test_a_quota_is_named_with_the_file(world: World) -> None:
    rules = [rule(f"r{number}", sql_filter="a = 1") for number in range(2_001)]
    with pytest.raises(ConfigError, match=r"bus\.toml: .* would have 2001 "):
        await make(world, billing(*rules))


async def test_a_full_topic_can_still_have_its_rules_replaced() -> None:
    world = World(topic_quotas=TopicQuotas(sql_rules=1))
    await world.start()
    await make(world, billing(rule("first", sql_filter="a = 1")))
    await make(world, billing(rule("second", sql_filter="a = 2")))
    assert list(rules_of(world)) == ["second"]
    await world.namespace.update_rule(
        "orders", "billing", rule("second", sql_filter="a = 3")
    )
    await world.stop()


async def test_quotas_of_topics_are_settings() -> None:
    quotas = TopicQuotas(subscriptions=1, correlation_rules=1)
    world = World(topic_quotas=quotas, max_entity_megabytes=10_240)
    await world.start()
    namespace = world.namespace
    await namespace.create_topic("orders", {"max_size_in_megabytes": 10_240})
    with pytest.raises(ArgumentOutOfRange, match="is 20480; this server allows 10240"):
        await namespace.update_topic("orders", {"max_size_in_megabytes": 20_480})
    by_label = [rule("a", correlation_filter={"label": "x"})]
    await namespace.create_subscription("orders", "billing", {}, by_label)
    with pytest.raises(QuotaExceeded, match="2 subscriptions and 1 is the limit"):
        await namespace.create_subscription("orders", "audit", {})
    with pytest.raises(QuotaExceeded, match="2 correlation rules and 1 is the limit"):
        await namespace.add_rule(
            "orders", "billing", rule("b", correlation_filter={"label": "y"})
        )
    await world.stop()


async def test_a_lowered_setting_leaves_what_there_is() -> None:
    larger = World(max_entity_megabytes=10_240)
    await larger.start()
    await larger.namespace.create_queue("orders", {"max_size_in_megabytes": 10_240})
    await larger.stop()
    again = World()
    again.store.inner.disk = larger.store.inner.disk
    again.catalog.inner = larger.catalog.inner
    await again.start()
    queues = {"orders": {"max_size_in_megabytes": 10_240, "max_delivery_count": 3}}
    await make(again, Config(queues=queues))
    assert again.namespace.queue("orders").description.max_delivery_count == 3
    await again.stop()
