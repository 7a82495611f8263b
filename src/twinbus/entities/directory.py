"""Finds the entities of a namespace by path and kind."""

from typing import TypeVar

from twinbus.broker.entity_path import subscription_path
from twinbus.entities.entity import Entity
from twinbus.entities.queue import Queue
from twinbus.entities.subscription import Subscription
from twinbus.entities.topic import Topic
from twinbus.errors import MessagingEntityNotFound

_E = TypeVar("_E", bound=Entity)


class Directory:
    """Entities by path. Letter case does not matter."""

    def __init__(self) -> None:
        # By lower-case path.
        self._entities: dict[str, Entity] = {}

    def entity(self, path: str) -> Entity:
        """The entity of that path. Raises MessagingEntityNotFound."""
        entity = self._entities.get(path.lower())
        if entity is None:
            raise MessagingEntityNotFound(entity_path=path)
        return entity

    def find(self, path: str) -> Entity | None:
        """The entity of that path, if there is one."""
        return self._entities.get(path.lower())

    def check_exists(self, path: str) -> None:
        """Check that an entity has this path or is below it; an empty path is the
        namespace. Raises MessagingEntityNotFound."""
        key = path.lower()
        if not key or key in self._entities:
            return
        if not any(other.startswith(f"{key}/") for other in self._entities):
            raise MessagingEntityNotFound(entity_path=path)

    def _find(self, path: str, kind: type[_E]) -> _E:
        entity = self.entity(path)
        if not isinstance(entity, kind):
            raise MessagingEntityNotFound(
                f"The messaging entity '{path}' could not be found. A "
                f"{entity.record.kind} has this name.",
                entity_path=path,
            )
        return entity

    def _all(self, kind: type[_E]) -> list[_E]:
        paths = sorted(self._entities)
        found = [self._entities[path] for path in paths]
        return [entity for entity in found if isinstance(entity, kind)]

    def queue(self, path: str) -> Queue:
        """Raises MessagingEntityNotFound, also if it is a topic."""
        return self._find(path, Queue)

    def queues(self) -> list[Queue]:
        """All queues, by path."""
        return self._all(Queue)

    def topic(self, path: str) -> Topic:
        """Raises MessagingEntityNotFound, also if it is a queue."""
        return self._find(path, Topic)

    def topics(self) -> list[Topic]:
        """All topics, by path."""
        return self._all(Topic)

    def subscription(self, topic_path: str, name: str) -> Subscription:
        """Raises MessagingEntityNotFound."""
        return self._find(subscription_path(topic_path, name), Subscription)

    def subscriptions(self, topic_path: str) -> list[Subscription]:
        """All subscriptions of the topic, by name. Raises MessagingEntityNotFound."""
        of_topic = self.topic(topic_path).subscriptions
        return [of_topic[key] for key in sorted(of_topic)]

    def entities(self) -> list[Entity]:
        return list(self._entities.values())
