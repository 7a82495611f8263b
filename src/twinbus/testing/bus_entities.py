"""The entities of a namespace, as a test makes and changes them."""

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from twinbus.broker.fragment import MAIN
from twinbus.config.entities import entity_properties
from twinbus.entities.namespace import Namespace
from twinbus.errors import MessagingEntityNotFound
from twinbus.rules.rule import Rule
from twinbus.testing.rules import rule

T = TypeVar("T")


class BusEntities(ABC):
    """What a bus, and each of its namespaces, lets a test do with entities."""

    @abstractmethod
    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """In the loop of the bus."""

    @abstractmethod
    def _served(self) -> Namespace:
        """The namespace on the server that runs now."""

    # --- queues and topics ----------------------------------------------------

    def create_queue(self, path: str, **properties: Any) -> None:
        """Create a queue; properties as in the SDK's `QueueProperties`."""
        self._run(self._served().create_queue(path, entity_properties(properties)))

    def update_queue(self, path: str, **properties: Any) -> None:
        self._run(self._served().update_queue(path, entity_properties(properties)))

    def delete_queue(self, path: str) -> None:
        self._run(self._served().delete_queue(path))

    def create_topic(self, path: str, **properties: Any) -> None:
        """Create a topic; properties as in the SDK's `TopicProperties`."""
        self._run(self._served().create_topic(path, entity_properties(properties)))

    def update_topic(self, path: str, **properties: Any) -> None:
        self._run(self._served().update_topic(path, entity_properties(properties)))

    def delete_topic(self, path: str) -> None:
        """Delete a topic with its subscriptions."""
        self._run(self._served().delete_topic(path))

    def counts(self, path: str) -> dict[str, int]:
        """How many messages it has that are `active`, `deferred`, `scheduled` and
        `dead_letter`. A subscription is `TOPIC/Subscriptions/NAME`. A locked message is
        active."""
        return self._run(_counts(self._served(), path))

    # --- subscriptions --------------------------------------------------------

    def create_subscription(
        self,
        topic: str,
        name: str,
        rules: Sequence[Rule] | None = None,
        **properties: Any,
    ) -> None:
        """Create a subscription; properties as in the SDK's `SubscriptionProperties`.
        Without `rules` it gets all messages, with an empty list none."""
        self._run(
            self._served().create_subscription(
                topic, name, entity_properties(properties), rules
            )
        )

    def update_subscription(self, topic: str, name: str, **properties: Any) -> None:
        self._run(
            self._served().update_subscription(
                topic, name, entity_properties(properties)
            )
        )

    def delete_subscription(self, topic: str, name: str) -> None:
        self._run(self._served().delete_subscription(topic, name))

    def add_rule(
        self, topic: str, subscription: str, name: Rule | str, **parts: Any
    ) -> None:
        """Add a rule: one made by `rule`, or the arguments of `rule`."""
        added = rule(name, **parts) if isinstance(name, str) else name
        self._run(self._served().add_rule(topic, subscription, added))

    def remove_rule(self, topic: str, subscription: str, name: str) -> None:
        """Remove a rule. New subscriptions have `$Default`, which selects
        everything."""
        self._run(self._served().remove_rule(topic, subscription, name))


async def _counts(namespace: Namespace, path: str) -> dict[str, int]:
    """In the loop, where nothing else happens meanwhile."""
    entity = namespace.entity(path)
    main, counts = entity.all_counters(MAIN), entity.counts()
    return {
        "active": sum(one.active_count for one in main),
        "deferred": sum(one.deferred_count for one in main),
        "scheduled": counts.scheduled,
        "dead_letter": counts.dead_letter,
    }


async def delete_all(namespace: Namespace) -> None:
    """Delete all its entities."""
    for entity in namespace.entities():
        # Subscriptions go with their topics, and others may go by themselves.
        with suppress(MessagingEntityNotFound):
            await namespace.delete(entity)
