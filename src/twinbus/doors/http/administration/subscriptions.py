"""Subscriptions over HTTP, created with the client's rule or the default rule."""

from collections.abc import Callable, Sequence

from twinbus.clock import Clock
from twinbus.doors.http.administration.address import Address
from twinbus.doors.http.administration.collection import Change
from twinbus.doors.http.administration.description_fields import SUBSCRIPTION_FIELDS
from twinbus.doors.http.administration.entity_descriptions import EntityDescriptions
from twinbus.doors.http.administration.rule_xml import read_rule
from twinbus.doors.http.administration.xml_writing import AtomEntry
from twinbus.entities.namespace import Namespace
from twinbus.entities.resource import Resource
from twinbus.entities.subscription import Subscription
from twinbus.rules.rule import DEFAULT_RULE, Rule
from twinbus.rules.sql.rule_checks import rule_of_json


class Subscriptions:
    """The subscriptions of any topic."""

    element = "SubscriptionDescription"
    title = "Subscriptions"

    def __init__(
        self, namespace: Namespace, clock: Clock, new_key: Callable[[], str]
    ) -> None:
        self._namespace = namespace
        self._clock = clock
        self._descriptions = EntityDescriptions(
            self.element, SUBSCRIPTION_FIELDS, namespace, clock, new_key
        )

    def all(self, resource: Resource, prefix: str) -> Sequence[Subscription]:
        found = self._namespace.subscriptions(resource.entity)
        return [item for item in found if item.name.lower().startswith(prefix)]

    def find(self, resource: Resource) -> Subscription:
        return self._namespace.subscription(resource.entity, resource.subscription)

    def entry(self, item: Subscription, address: Address) -> AtomEntry:
        # JavaScript finds the name after a segment with exactly this spelling.
        url = address.to(f"{item.topic_path}/Subscriptions/{item.name}")
        return self._descriptions.entry(item, item.name, url, address, {})

    async def put(self, change: Change) -> Subscription:
        topic, name = change.resource.entity, change.resource.subscription
        path = f"{topic}/Subscriptions/{name}"
        properties = self._descriptions.properties(change, path)
        if change.is_update:
            return await self._namespace.update_subscription(topic, name, properties)
        rules = self._first_rules(change, path)
        return await self._namespace.create_subscription(topic, name, properties, rules)

    def _first_rules(self, change: Change, path: str) -> list[Rule] | None:
        given = change.content.child("DefaultRuleDescription")
        if given is None:
            return None
        document = read_rule(given, given.value("Name") or DEFAULT_RULE, path)
        return [rule_of_json({**document, "created_at": self._clock.now()})]

    async def delete(self, resource: Resource) -> None:
        await self._namespace.delete_subscription(
            resource.entity, resource.subscription
        )
