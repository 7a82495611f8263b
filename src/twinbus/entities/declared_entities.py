"""Creates or updates the entities of the configuration file at the start.

Everything is checked before the first change, so a file with an error changes nothing.
Forward targets are set after all entities are created: an entity may forward to one
that the file declares later. Properties, entities and rules that the file does not
name stay as they are.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from twinbus.broker.descriptions.forward_path import forward_path
from twinbus.broker.descriptions.queue import QueueDescription, queue_description
from twinbus.broker.descriptions.subscription import (
    SubscriptionDescription,
    subscription_description,
)
from twinbus.broker.descriptions.topic import TopicDescription, topic_description
from twinbus.broker.entity_path import subscription_path
from twinbus.config.config import ConfigError
from twinbus.config.entities import DeclaredEntities
from twinbus.entities.entity import Description, Entity
from twinbus.entities.namespace import Namespace
from twinbus.errors import MessagingEntityNotFound, NotAllowed, ServiceBusError
from twinbus.rules.rule import Rule

_FORWARDS: Final = ("forward_to", "forward_dead_lettered_messages_to")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Declared:
    """An entity of the configuration, of any kind."""

    kind: str
    path: str
    properties: Mapping[str, Any]
    # For a subscription: its topic, its name, and its rules if the file has them.
    topic: str = ""
    name: str = ""
    rules: tuple[Rule, ...] | None = None


async def make_declared(
    namespace: Namespace, entities: DeclaredEntities, file: str, now: int
) -> None:
    """Create or update the entities that the file declares. Raises ConfigError."""
    declared = list(_declared(entities))
    paths = {entity.path.lower() for entity in declared}
    for entity in declared:
        with _complaints(entity, file):
            _check(namespace, entity, paths)
    for entity in declared:
        with _complaints(entity, file):
            await _make(namespace, entity, now)
    for entity in declared:
        with _complaints(entity, file):
            await _update(namespace, entity, _forwards(entity))


def _declared(entities: DeclaredEntities) -> Iterator[_Declared]:
    """All declared entities, topics before their subscriptions."""
    for path, properties in entities.queues.items():
        yield _Declared(kind="queue", path=path, properties=properties)
    for path, topic in entities.topics.items():
        yield _Declared(kind="topic", path=path, properties=topic.properties)
        for name, subscription in topic.subscriptions.items():
            yield _Declared(
                kind="subscription",
                path=subscription_path(path, name),
                properties=subscription.properties,
                topic=path,
                name=name,
                rules=subscription.rules,
            )


def _forwards(declared: _Declared) -> dict[str, str]:
    given = declared.properties
    return {name: given[name] for name in _FORWARDS if name in given}


def _without_forwards(declared: _Declared) -> dict[str, Any]:
    given = declared.properties
    return {name: given[name] for name in given if name not in _FORWARDS}


@contextmanager
def _complaints(declared: _Declared, file: str) -> Iterator[None]:
    """Add file and entity to the text of an error."""
    try:
        yield
    except ServiceBusError as error:
        where = f"{file}: " if file else ""
        raise ConfigError(
            f"{where}{declared.kind} '{declared.path}': {error.text}"
        ) from None


# --- checks ---------------------------------------------------------------------


def _check(namespace: Namespace, declared: _Declared, paths: Collection[str]) -> None:
    existing = _existing(namespace, declared.path)
    if existing is not None and existing.record.kind != declared.kind:
        raise NotAllowed(
            f"There is a {existing.record.kind} of that name. Choose another name, or "
            "delete it first.",
            entity_path=declared.path,
        )
    base = None if existing is None else existing.description
    description = _description(declared, declared.properties, base)
    namespace.sizes.check(declared.path, description, base)
    for target in map(forward_path, _forwards(declared).values()):
        known = target.lower() in paths or _existing(namespace, target) is not None
        if target and not known:
            raise MessagingEntityNotFound(
                f"It cannot forward to '{target}', which is not declared and does "
                "not exist.",
                entity_path=target,
            )


def _existing(namespace: Namespace, path: str) -> Entity | None:
    try:
        return namespace.entity(path)
    except MessagingEntityNotFound:
        return None


def _description(
    declared: _Declared, properties: Mapping[str, Any], base: Description | None
) -> Description:
    """The wanted description. Raises the errors of a creation or update."""
    path = declared.path
    if declared.kind == "queue":
        assert base is None or isinstance(base, QueueDescription)
        return queue_description(properties, path, base)
    if declared.kind == "topic":
        assert base is None or isinstance(base, TopicDescription)
        return topic_description(properties, path, base)
    assert base is None or isinstance(base, SubscriptionDescription)
    return subscription_description(properties, path, base)


# --- changes --------------------------------------------------------------------


async def _make(namespace: Namespace, declared: _Declared, now: int) -> None:
    """Create or update the entity, without its forwarding."""
    properties = _without_forwards(declared)
    rules = _dated(declared.rules, now)
    if _existing(namespace, declared.path) is not None:
        await _update(namespace, declared, properties)
        if rules is not None:
            subscription = namespace.subscription(declared.topic, declared.name)
            await namespace.rules.replace(subscription, rules)
    elif declared.kind == "queue":
        await namespace.create_queue(declared.path, properties)
    elif declared.kind == "topic":
        await namespace.create_topic(declared.path, properties)
    else:
        await namespace.create_subscription(
            declared.topic, declared.name, properties, rules
        )


def _dated(rules: tuple[Rule, ...] | None, now: int) -> list[Rule] | None:
    if rules is None:
        return None
    return [Rule(rule.name, rule.filter, rule.action, now) for rule in rules]


async def _update(
    namespace: Namespace, declared: _Declared, properties: Mapping[str, Any]
) -> None:
    """Update the entity if a property differs; otherwise `updated_at` stays."""
    before = namespace.entity(declared.path).description
    if _description(declared, properties, before) == before:
        return
    if declared.kind == "queue":
        await namespace.update_queue(declared.path, properties)
    elif declared.kind == "topic":
        await namespace.update_topic(declared.path, properties)
    else:
        await namespace.update_subscription(declared.topic, declared.name, properties)
