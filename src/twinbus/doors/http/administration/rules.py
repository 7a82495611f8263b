"""The rules of subscriptions over HTTP."""

from collections.abc import Sequence
from dataclasses import dataclass

from twinbus.clock import Clock
from twinbus.doors.http.administration.address import Address
from twinbus.doors.http.administration.collection import Change, etag
from twinbus.doors.http.administration.rule_xml import read_rule, write_rule
from twinbus.doors.http.administration.xml_writing import AtomEntry
from twinbus.entities.namespace import Namespace
from twinbus.entities.resource import Resource
from twinbus.errors import MessagingEntityNotFound
from twinbus.rules.rule import Rule
from twinbus.rules.sql.rule_checks import rule_of_json


@dataclass(frozen=True, slots=True)
class PlacedRule:
    """A rule, and the path of the subscription that it belongs to."""

    path: str
    rule: Rule


class Rules:
    """The rules of any subscription."""

    element = "RuleDescription"
    title = "Rules"

    def __init__(self, namespace: Namespace, clock: Clock) -> None:
        self._namespace = namespace
        self._clock = clock

    def all(self, resource: Resource, prefix: str) -> Sequence[PlacedRule]:
        subscription = self._namespace.subscription(
            resource.entity, resource.subscription
        )
        path = f"{subscription.topic_path}/Subscriptions/{subscription.name}"
        return [
            PlacedRule(path, rule)
            for rule in subscription.rules()
            if rule.name.lower().startswith(prefix)
        ]

    def find(self, resource: Resource) -> PlacedRule:
        for placed in self.all(resource, ""):
            if placed.rule.name.lower() == resource.rule.lower():
                return placed
        raise MessagingEntityNotFound(
            entity_path=f"{resource.entity}/Subscriptions/{resource.subscription}"
            f"/Rules/{resource.rule}"
        )

    def entry(self, item: PlacedRule, address: Address) -> AtomEntry:
        rule = item.rule
        return AtomEntry(
            # JavaScript finds the name after a segment with exactly this spelling.
            id=address.to(f"{item.path}/Rules/{rule.name}"),
            title=rule.name,
            author=self._namespace.name,
            published_at=rule.created_at,
            updated_at=rule.created_at,
            content=write_rule(rule),
            etag=etag(rule.to_json(), rule.created_at, rule.created_at),
        )

    async def put(self, change: Change) -> PlacedRule:
        resource = change.resource
        topic, subscription = resource.entity, resource.subscription
        path = f"{topic}/Subscriptions/{subscription}"
        document = read_rule(change.content, resource.rule, path)
        rule = rule_of_json({**document, "created_at": self._clock.now()})
        if change.is_update:
            kept = await self._namespace.update_rule(topic, subscription, rule)
        else:
            kept = await self._namespace.add_rule(topic, subscription, rule)
        return PlacedRule(path, kept)

    async def delete(self, resource: Resource) -> None:
        await self._namespace.remove_rule(
            resource.entity, resource.subscription, resource.rule
        )
