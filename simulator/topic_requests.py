"""Requests of simulated clients about topics, subscriptions and rules."""

from dataclasses import dataclass

from simulator.audited_message import Rules
from simulator.life import Life
from simulator.replies import replied
from simulator.requests import subscription_properties
from simulator.topic_audit import SUBSCRIPTIONS, AuditedRule
from twinbus.entities.subscription import Subscription
from twinbus.rules.rule import Rule
from twinbus.testing.rules import rule as written_rule


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleDraft:
    """A rule to add: it matches by color, with one of several kinds of filters."""

    name: str
    # "sql", "correlation", "true" or "false".
    kind: str
    colors: tuple[str, ...]
    # Value that its action sets; empty: no action.
    tag: str = ""

    def rule(self) -> Rule:
        sql, correlation = None, None
        if self.kind == "sql":
            sql = f"color IN ({', '.join(repr(color) for color in self.colors)})"
        elif self.kind == "correlation":
            correlation = {"properties": {"color": self.colors[0]}}
        elif self.kind == "false":
            sql = "1 = 0"
        return written_rule(
            self.name,
            sql_filter=sql,
            correlation_filter=correlation,
            action=f"SET tag = '{self.tag}'" if self.tag else None,
        )

    def audited(self, event: int) -> AuditedRule:
        return AuditedRule(
            name=self.name,
            colors=frozenset(self.colors),
            tag=self.tag,
            may_be_from=event,
        )


def _names(path: str) -> tuple[str, str]:
    topic, _, name = path.partition(SUBSCRIPTIONS)
    return topic, name


async def create_topic(life: Life, path: str) -> None:
    topics = life.auditor.topics
    topics.topic_requested(path)
    with replied(life, f"create topic {path}") as reply:
        await life.namespace.create_topic(path, {})
    if not reply.is_unknown:
        topics.topic_answered(path, is_created=reply.is_ok)


async def delete_topic(life: Life, path: str) -> None:
    """Delete a topic and its subscriptions."""
    auditor = life.auditor
    auditor.topics.deletion_requested(path)
    within = [p for p in auditor.paths() if p.startswith(path + SUBSCRIPTIONS)]
    for subscription in within:
        auditor.deletion_requested(subscription)
    with replied(life, f"delete topic {path}") as reply:
        await life.namespace.delete_topic(path)
    # Even if it was refused: an entity is deleted when the catalog does not have it.
    if life.is_alive and not reply.is_unknown:
        auditor.topics.topic_deleted(path)
        for subscription in within:
            if auditor.knows_queue(subscription):
                auditor.queue_deleted(subscription)


async def create_subscription(
    life: Life, path: str, rules: Rules, drafts: list[RuleDraft]
) -> None:
    audited = [draft.audited(life.auditor.event) for draft in drafts]
    life.auditor.subscription_requested(path, rules, audited)
    topic, name = _names(path)
    with replied(life, f"create {path} with {rules} and {drafts}") as reply:
        await life.namespace.create_subscription(
            topic,
            name,
            subscription_properties(rules),
            [draft.rule() for draft in drafts],
        )
    if reply.is_ok:
        life.auditor.queue_created(path)
    elif not reply.is_unknown:
        life.auditor.queue_refused(path)


async def update_subscription(life: Life, path: str, rules: Rules) -> None:
    life.auditor.update_requested(path, rules)
    topic, name = _names(path)
    with replied(life, f"update {path} to {rules}"):
        properties = subscription_properties(rules)
        await life.namespace.update_subscription(topic, name, properties)


async def delete_subscription(life: Life, path: str) -> None:
    life.auditor.deletion_requested(path)
    topic, name = _names(path)
    with replied(life, f"delete {path}") as reply:
        await life.namespace.delete_subscription(topic, name)
    if life.is_alive and not reply.is_unknown and life.auditor.is_ending(path):
        life.auditor.queue_deleted(path)


async def add_rule(life: Life, path: str, draft: RuleDraft) -> None:
    topics, audited = life.auditor.topics, draft.audited(life.auditor.event)
    topics.rule_requested(path, audited)
    topic, name = _names(path)
    with replied(life, f"add {draft} to {path}") as reply:
        await life.namespace.add_rule(topic, name, draft.rule())
    if not reply.is_unknown:
        topics.rule_answered(path, audited, is_added=reply.is_ok)


async def remove_rule(life: Life, path: str, rule_name: str) -> None:
    life.tell(None)
    topics, asked = life.auditor.topics, life.auditor.event
    audited = topics.removal_requested(path, rule_name)
    topic, name = _names(path)
    with replied(life, f"remove rule {rule_name} of {path}") as reply:
        await life.namespace.remove_rule(topic, name, rule_name)
    if not reply.is_unknown:
        topics.removal_answered(audited, asked, is_removed=reply.is_ok)


def list_topics(life: Life) -> None:
    """Compare topics and rules with the auditor's; no request may be under way."""
    topics = life.auditor.topics
    topics.listed(topic.path for topic in life.namespace.topics())
    for entity in life.namespace.entities():
        if isinstance(entity, Subscription):
            found = {(rule.name, _tag(rule)) for rule in entity.rules()}
            topics.rules_listed(entity.path, found)


def _tag(rule: Rule) -> str:
    return "" if rule.action is None else rule.action.text.split("'")[1]
