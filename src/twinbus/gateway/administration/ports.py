"""What administration needs of a namespace and its entities.

Reading is immediate, from memory; changes are durable when they return. Properties
are those of `broker/descriptions/`, by the same names; `update_*` changes what it
names and leaves the rest. Paths and names are compared without case. All methods
raise what their comments say, and nothing else but bugs; errors of a store
(ServerBusy, InternalError) may come from any that waits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from twinbus.auth.policy import Policy
from twinbus.broker.descriptions.queue import QueueDescription
from twinbus.broker.descriptions.subscription import SubscriptionDescription
from twinbus.broker.descriptions.topic import TopicDescription
from twinbus.rules.rule import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageCounts:
    """How many messages an entity holds, by where they are."""

    # Deferred messages count as active, as in the service.
    active: int = 0
    dead_letter: int = 0
    scheduled: int = 0
    transfer: int = 0
    transfer_dead_letter: int = 0

    @property
    def total(self) -> int:
        return (
            self.active
            + self.dead_letter
            + self.scheduled
            + self.transfer
            + self.transfer_dead_letter
        )


class Entity(Protocol):
    """What queues, topics and subscriptions have in common."""

    @property
    def created_at(self) -> int: ...

    @property
    def updated_at(self) -> int: ...

    @property
    def accessed_at(self) -> int:
        """Of the last send or receive; 0 for never."""
        ...

    def counts(self) -> MessageCounts: ...


class QueueEntity(Entity, Protocol):
    """A queue."""

    @property
    def path(self) -> str: ...

    @property
    def description(self) -> QueueDescription: ...

    def size_bytes(self) -> int: ...


class TopicEntity(Entity, Protocol):
    """A topic."""

    @property
    def path(self) -> str: ...

    @property
    def description(self) -> TopicDescription: ...

    def size_bytes(self) -> int: ...

    def subscription_count(self) -> int: ...

    def sql_filter_count(self) -> int: ...

    def correlation_filter_count(self) -> int: ...


class SubscriptionEntity(Entity, Protocol):
    """A subscription of a topic."""

    @property
    def topic_path(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> SubscriptionDescription: ...

    def rules(self) -> Sequence[Rule]:
        """By name."""
        ...


class AdministeredNamespace(Protocol):
    """A namespace whose entities can be looked at and changed."""

    @property
    def name(self) -> str: ...

    @property
    def created_at(self) -> int: ...

    @property
    def updated_at(self) -> int: ...

    @property
    def max_message_bytes(self) -> int:
        """What an entity takes that says nothing else."""
        ...

    @property
    def policy(self) -> Policy:
        """The access rules as they are now."""
        ...

    # --- queues ---------------------------------------------------------------

    def queues(self) -> Sequence[QueueEntity]:
        """All, by path."""
        ...

    def queue(self, path: str) -> QueueEntity:
        """Raises MessagingEntityNotFound, also if it is a topic."""
        ...

    async def create_queue(
        self, path: str, properties: Mapping[str, Any]
    ) -> QueueEntity:
        """Raises ArgumentError, ArgumentOutOfRange, EntityAlreadyExists (for a topic
        of that path, too), NotAllowed, QuotaExceeded, MessagingEntityNotFound (of a
        forward target)."""
        ...

    async def update_queue(
        self, path: str, properties: Mapping[str, Any]
    ) -> QueueEntity:
        """Raises what creation does, but EntityAlreadyExists."""
        ...

    async def delete_queue(self, path: str) -> None:
        """Raises MessagingEntityNotFound."""
        ...

    # --- topics ---------------------------------------------------------------

    def topics(self) -> Sequence[TopicEntity]:
        """All, by path."""
        ...

    def topic(self, path: str) -> TopicEntity:
        """Raises MessagingEntityNotFound, also if it is a queue."""
        ...

    async def create_topic(
        self, path: str, properties: Mapping[str, Any]
    ) -> TopicEntity:
        """Raises as `create_queue`."""
        ...

    async def update_topic(
        self, path: str, properties: Mapping[str, Any]
    ) -> TopicEntity:
        """Raises as `update_queue`."""
        ...

    async def delete_topic(self, path: str) -> None:
        """With its subscriptions. Raises MessagingEntityNotFound."""
        ...

    # --- subscriptions --------------------------------------------------------

    def subscriptions(self, topic_path: str) -> Sequence[SubscriptionEntity]:
        """All of the topic, by name. Raises MessagingEntityNotFound."""
        ...

    def subscription(self, topic_path: str, name: str) -> SubscriptionEntity:
        """Raises MessagingEntityNotFound."""
        ...

    async def create_subscription(
        self,
        topic_path: str,
        name: str,
        properties: Mapping[str, Any],
        rules: Sequence[Rule] | None = None,
    ) -> SubscriptionEntity:
        """With these rules; None means the default rule, which takes everything.
        Raises as `create_queue`, and MessagingEntityNotFound for the topic."""
        ...

    async def update_subscription(
        self, topic_path: str, name: str, properties: Mapping[str, Any]
    ) -> SubscriptionEntity:
        """Raises as `update_queue`."""
        ...

    async def delete_subscription(self, topic_path: str, name: str) -> None:
        """Raises MessagingEntityNotFound."""
        ...

    # --- rules ----------------------------------------------------------------

    async def add_rule(self, topic_path: str, subscription: str, rule: Rule) -> Rule:
        """The rule as it is kept, with its instant of creation. Raises ArgumentError,
        EntityAlreadyExists, MessagingEntityNotFound, QuotaExceeded."""
        ...

    async def update_rule(self, topic_path: str, subscription: str, rule: Rule) -> Rule:
        """Replace the rule of that name. Raises as `add_rule`, but not
        EntityAlreadyExists; MessagingEntityNotFound for the rule, too."""
        ...

    async def remove_rule(self, topic_path: str, subscription: str, name: str) -> None:
        """Raises MessagingEntityNotFound."""
        ...
