"""Adds, replaces and removes rules of subscriptions, alone or in a transaction.

A change applies to messages that are sent after it, and becomes durable with the next
commit. If the commit fails, the rules are read from the store again. A change is first
checked and later applied, so that it can wait for the end of a transaction.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from twinbus.broker.changes import StoredRule
from twinbus.clock import Clock
from twinbus.entities.other_brokers import NoOthers, OtherBrokers
from twinbus.entities.subscription import Subscription
from twinbus.entities.topic_quotas import TopicQuotas
from twinbus.errors import (
    EntityAlreadyExists,
    MessagingEntityNotFound,
    QuotaExceeded,
)
from twinbus.fragments import hashing
from twinbus.owner.store_owner import owner_of
from twinbus.rules.filters import CorrelationFilter, Filter, SqlFilter
from twinbus.rules.rule import Rule
from twinbus.rules.sql.rule_checks import rule_of_json
from twinbus.store.catalog import HASH_VERSION, RULES, EntityRecord
from twinbus.topics.topic import TopicRouter


def stored_rule(fragment_number: int, rule: Rule) -> StoredRule:
    """Convert a rule for the store."""
    return StoredRule(
        fragment_number=fragment_number,
        name=rule.name,
        definition=json.dumps(rule.to_json()),
        created_at=rule.created_at,
    )


def rules_of_record(record: EntityRecord) -> list[StoredRule]:
    """The rules of a partitioned subscription, in the form of those of a store."""
    return [stored_rule(0, rule_of_json(rule)) for rule in record.rules]


def with_internals(record: EntityRecord, rules: Sequence[Rule]) -> EntityRecord:
    """The record of a new entity. If it is partitioned, it also has what the bus needs
    to know of it, apart from its properties."""
    if len(record.placement) == 1:
        return record
    internals: dict[str, Any] = {HASH_VERSION: hashing.HASH_VERSION}
    if record.kind == "subscription":
        internals[RULES] = [rule.to_json() for rule in rules]
    return replace(record, description={**record.description, **internals})


def read_rule(stored: StoredRule) -> Rule:
    """Read a rule of the store."""
    return rule_of_json(json.loads(stored.definition))


class SubscriptionRules:
    """Changes of the rules of subscriptions."""

    def __init__(
        self,
        clock: Clock,
        quotas: TopicQuotas,
        save: Callable[[Subscription], Awaitable[None]],
    ) -> None:
        self._clock = clock
        self._quotas = quotas
        # Writes the rules of a partitioned subscription to the catalog.
        self._save = save
        # Set when this process has joined a cluster.
        self.others: OtherBrokers = NoOthers()

    def _are_elsewhere(self, subscription: Subscription) -> bool:
        """Another broker has them. Those of a partitioned one are in the catalog."""
        home = subscription.home(0)
        is_away = not subscription.is_partitioned and not home.is_serving
        return is_away and self.others.serves(home.store_uuid)

    async def _change_elsewhere(
        self, operation: str, subscription: Subscription, rule: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        store, path = subscription.home(0).store_uuid, subscription.path
        return await self.others.change_rule(store, operation, path, rule)

    async def _durable(self, subscription: Subscription) -> None:
        """Wait until a change is durable. If that fails, the rules are those of before:
        the owner of a store restores them, and this does it for the catalog."""
        if not subscription.is_partitioned:
            await owner_of(subscription.fragment()).durable()
            return
        try:
            await self._save(subscription)
        except BaseException:
            subscription.router.restore(
                subscription.key, rules_of_record(subscription.record)
            )
            raise

    # --- at once --------------------------------------------------------------

    async def add(self, subscription: Subscription, rule: Rule) -> Rule:
        """Raises EntityAlreadyExists, QuotaExceeded."""
        if self._are_elsewhere(subscription):
            document = rule.to_json()
            return rule_of_json(
                await self._change_elsewhere("add-rule", subscription, document)
            )
        self.check_addition(subscription, rule)
        self.apply_addition(subscription, rule)
        await self._durable(subscription)
        return rule

    async def update(self, subscription: Subscription, rule: Rule) -> Rule:
        """Raises MessagingEntityNotFound, QuotaExceeded."""
        if self._are_elsewhere(subscription):
            document = rule.to_json()
            return rule_of_json(
                await self._change_elsewhere("update-rule", subscription, document)
            )
        before = self.check_removal(subscription, rule.name)
        kept = Rule(before.name, rule.filter, rule.action, before.created_at)
        self.check_counts(
            subscription.router, subscription.topic_path, [kept], [before]
        )
        self.apply_removal(subscription, before.name)
        self.apply_addition(subscription, kept)
        await self._durable(subscription)
        return kept

    async def remove(self, subscription: Subscription, name: str) -> None:
        """Raises MessagingEntityNotFound."""
        if self._are_elsewhere(subscription):
            await self._change_elsewhere("remove-rule", subscription, {"name": name})
            return
        self.check_removal(subscription, name)
        self.apply_removal(subscription, name)
        await self._durable(subscription)

    async def replace(self, subscription: Subscription, rules: Sequence[Rule]) -> None:
        """Replace all its rules in one commit; equal ones stay. Raises
        QuotaExceeded."""
        before = {rule.name: rule for rule in subscription.rules()}
        after = {rule.name: rule for rule in rules}
        kept = {
            name
            for name in before.keys() & after.keys()
            if _says_the_same(before[name], after[name])
        }
        removed = [rule for name, rule in before.items() if name not in kept]
        added = [rule for name, rule in after.items() if name not in kept]
        self.check_counts(subscription.router, subscription.topic_path, added, removed)
        for rule in removed:
            self.apply_removal(subscription, rule.name)
        for rule in added:
            self.apply_addition(subscription, rule)
        await self._durable(subscription)

    # --- in two steps ---------------------------------------------------------

    def check_addition(self, subscription: Subscription, rule: Rule) -> None:
        """Raises EntityAlreadyExists, QuotaExceeded."""
        path = f"{subscription.path}/Rules/{rule.name}"
        if subscription.router.rules().rule(subscription.key, rule.name) is not None:
            raise EntityAlreadyExists(entity_path=path)
        self.check_counts(subscription.router, subscription.topic_path, [rule])

    def apply_addition(self, subscription: Subscription, rule: Rule) -> None:
        subscription.router.rules().add(subscription.key, rule)
        subscription.used_at = self._clock.now()
        if not subscription.is_partitioned:
            fragment = subscription.fragment()
            changes = fragment.home.changes
            changes.rules_put.append(stored_rule(fragment.number, rule))

    def check_removal(self, subscription: Subscription, name: str) -> Rule:
        """The rule to remove. Raises MessagingEntityNotFound."""
        rule = subscription.router.rules().rule(subscription.key, name)
        if rule is None:
            path = f"{subscription.path}/Rules/{name}"
            raise MessagingEntityNotFound(entity_path=path)
        return rule

    def apply_removal(self, subscription: Subscription, name: str) -> None:
        removed = subscription.router.rules().remove(subscription.key, name)
        assert removed is not None, f"rule {name} was checked, and is gone"
        subscription.used_at = self._clock.now()
        if subscription.is_partitioned:
            return
        fragment = subscription.fragment()
        changes, number = fragment.home.changes, fragment.number
        # If the same change set adds it, take it out there.
        changes.rules_put[:] = [
            rule
            for rule in changes.rules_put
            if (rule.fragment_number, rule.name) != (number, removed.name)
        ]
        changes.rules_removed.append((number, removed.name))

    def check_counts(
        self,
        router: TopicRouter,
        topic_path: str,
        added: Sequence[Rule],
        removed: Sequence[Rule] = (),
    ) -> None:
        """Raises QuotaExceeded."""
        index, quotas = router.rules(), self._quotas
        for noun, kind, count, limit in (
            ("sql", SqlFilter, index.sql_rule_count, quotas.sql_rules),
            (
                "correlation",
                CorrelationFilter,
                index.correlation_rule_count,
                quotas.correlation_rules,
            ),
        ):
            more = _count(added, kind) - _count(removed, kind)
            # Removals are allowed even if a topic has more than a lowered quota.
            if more > 0 and count + more > limit:
                raise QuotaExceeded.counted(
                    f"{noun} rules",
                    limit=limit,
                    actual=count + more,
                    setting=f"max_{noun}_rules_per_topic",
                    entity_path=topic_path,
                )


def _count(rules: Sequence[Rule], kind: type[Filter]) -> int:
    return sum(isinstance(rule.filter, kind) for rule in rules)


def _says_the_same(rule: Rule, other: Rule) -> bool:
    """True if they differ in nothing but their creation time."""
    return rule.to_json() == {**other.to_json(), "created_at": rule.created_at}
