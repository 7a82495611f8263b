"""A subscription: a queue that its topic fills with messages that match its rules."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from twinbus.broker.changes import StoredRule
from twinbus.broker.descriptions.subscription import SubscriptionDescription
from twinbus.broker.entity_path import split_subscription_path
from twinbus.broker.fragment_table import FragmentTable
from twinbus.entities.message_source import MessageSource
from twinbus.errors import NotAllowed
from twinbus.rules.rule import Rule
from twinbus.store.catalog import EntityRecord
from twinbus.topics.topic import TopicRouter


class Subscription(MessageSource):
    """One subscription of a topic."""

    __slots__ = ("router",)

    description: SubscriptionDescription

    def __init__(
        self,
        record: EntityRecord,
        description: SubscriptionDescription,
        router: TopicRouter,
        tables: tuple[FragmentTable, ...],
        now: int,
    ) -> None:
        super().__init__(record, description, tables, now)
        # The router of the topic. It has the rules.
        self.router = router

    @property
    def topic_path(self) -> str:
        return split_subscription_path(self.path)[0]

    @property
    def name(self) -> str:
        return split_subscription_path(self.path)[1]

    @property
    def key(self) -> str:
        """Its key in the topic's router."""
        return self.name.lower()

    @property
    def accessed_at(self) -> int:
        """Time of the last receive. Messages from its topic do not count."""
        return self.used_at

    def rules(self) -> list[Rule]:
        """Its rules, sorted by name."""
        rules = self.router.rules().rules(self.key)
        return sorted(rules, key=lambda rule: rule.name.lower())

    def learn_rules(self, documents: Sequence[Mapping[str, Any]]) -> None:
        """What another broker says of its rules, which it has."""
        stored = [
            StoredRule(
                fragment_number=0,
                name=document["name"],
                definition=json.dumps(document),
                created_at=document["created_at"],
            )
            for document in documents
        ]
        self.router.restore(self.key, stored)

    def check_may_send(self) -> None:
        raise NotAllowed(
            f"'{self.path}' is a subscription: send to its topic.",
            entity_path=self.path,
        )
