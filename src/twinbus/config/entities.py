"""The entities that a file declares: queues, topics, subscriptions and their rules.

Whatever the file's format, it ends up as these values, checked as the server would
check them, while the place of a mistake is still known. What is wrong is a ValueError
that says where; which file it is, the caller knows. Whether a forward target exists is
known at the start of the server only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from twinbus.broker.descriptions.access_rule import RIGHTS, AccessRule
from twinbus.broker.descriptions.queue import queue_description
from twinbus.broker.descriptions.subscription import subscription_description
from twinbus.broker.descriptions.topic import topic_description
from twinbus.broker.entity_path import check_entity_name, check_subscription_name
from twinbus.config.rules import written_rules
from twinbus.durations import duration_ms
from twinbus.errors import ServiceBusError
from twinbus.rules.rule import Rule

Properties = Mapping[str, Any]
"""Properties of an entity, named as in its description."""

_DURATIONS: Final = (
    "lock_duration",
    "default_message_time_to_live",
    "duplicate_detection_history_time_window",
    "auto_delete_on_idle",
)
"""Properties that people write as durations and descriptions keep in ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSubscription:
    """A subscription of a declared topic."""

    properties: Properties = field(default_factory=dict)
    # None: the file says nothing about them.
    rules: tuple[Rule, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTopic:
    """A topic with those of its subscriptions that are declared."""

    properties: Properties = field(default_factory=dict)
    # By name.
    subscriptions: Mapping[str, DeclaredSubscription] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredEntities:
    """Queues and topics by path."""

    queues: Mapping[str, Properties] = field(default_factory=dict)
    topics: Mapping[str, DeclaredTopic] = field(default_factory=dict)


def entities_of_tables(
    queues: Mapping[str, Any], topics: Mapping[str, Any]
) -> DeclaredEntities:
    """What the sections `queues` and `topics` of a TOML file say. Raises ValueError."""
    return checked_entities(
        DeclaredEntities(
            queues={
                path: _written(properties, f"[queues.{path}]")
                for path, properties in queues.items()
            },
            topics={path: _topic(path, topic) for path, topic in topics.items()},
        )
    )


def _topic(path: str, value: object) -> DeclaredTopic:
    where = f"[topics.{path}]"
    topic = dict(table(value, where))
    place = f"[topics.{path}.subscriptions]"
    subscriptions = table(topic.pop("subscriptions", {}), place)
    return DeclaredTopic(
        properties=_written(topic, where),
        subscriptions={
            name: _subscription(found, f"[topics.{path}.subscriptions.{name}]")
            for name, found in subscriptions.items()
        },
    )


def _subscription(value: object, where: str) -> DeclaredSubscription:
    subscription = dict(table(value, where))
    rules = subscription.pop("rules", None)
    return DeclaredSubscription(
        properties=_written(subscription, where),
        rules=None if rules is None else written_rules(rules, where),
    )


def table(value: object, where: str) -> Properties:
    """Raises ValueError if it is none."""
    if not isinstance(value, dict):
        raise ValueError(f"{where}: must be a table")
    return value


def _written(value: object, where: str) -> dict[str, Any]:
    properties = dict(table(value, where))
    rules = properties.get("authorization_rules", [])
    if not isinstance(rules, list):
        raise ValueError(f"{where}: authorization_rules must be a list of tables")
    if rules:
        place = f"{where} authorization_rules"
        properties["authorization_rules"] = [access_rule(rule, place) for rule in rules]
    try:
        return entity_properties(properties)
    except ValueError as error:
        raise ValueError(f"{where} {error}") from None


def entity_properties(properties: Properties) -> dict[str, Any]:
    """Properties as people write them, with durations in milliseconds.

    Raises ValueError for a duration that is none.
    """
    converted: dict[str, Any] = {}
    for name, value in properties.items():
        if name in _DURATIONS:
            try:
                converted[f"{name}_ms"] = duration_ms(value)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        else:
            converted[name] = value
    return converted


def access_rule(rule: object, where: str) -> AccessRule:
    """A shared access rule of the namespace or an entity. Raises ValueError."""
    values = table(rule, where)
    texts = ("key_name", "primary_key", "secondary_key")
    check_names(values, (*texts, "rights"), where, "name")
    for name in texts:
        value = values.get(name, "")
        is_needed = name != "secondary_key"
        if not isinstance(value, str) or (is_needed and not value):
            raise ValueError(f"{where}: {name} must be a text, and not empty")
    rights = values.get("rights", [])
    if not isinstance(rights, list) or not set(map(str, rights)) <= set(RIGHTS):
        raise ValueError(f"{where}: rights must be a list of {', '.join(RIGHTS)}")
    return AccessRule(**{**values, "rights": tuple(rights)})


def check_names(
    given: Mapping[str, Any], known: tuple[str, ...], where: str, noun: str
) -> None:
    """Raises ValueError for a name that is not known."""
    for name in given:
        if name not in known:
            place = f"{where}: " if where else ""
            raise ValueError(
                f"{place}unknown {noun} '{name}'; known are {', '.join(known)}"
            )


def checked_entities(entities: DeclaredEntities) -> DeclaredEntities:
    """Refuse now what the server would refuse. Raises ValueError."""
    _check_differ([*entities.queues, *entities.topics], "queues and topics")
    for path, properties in entities.queues.items():
        _check_queue(path, properties)
    for path, topic in entities.topics.items():
        _check_topic(path, topic)
    return entities


def _check_differ(names: list[str], noun: str) -> None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other is not name:
            raise ValueError(
                f"{noun} '{other}' and '{name}' have one name: case does not matter"
            )


def _check_queue(path: str, properties: Properties) -> None:
    try:
        check_entity_name(path)
        queue_description(properties, path)
    except ServiceBusError as error:
        raise ValueError(f"queue '{path}': {error.text}") from None


def _check_topic(path: str, topic: DeclaredTopic) -> None:
    try:
        check_entity_name(path)
        topic_description(topic.properties, path)
    except ServiceBusError as error:
        raise ValueError(f"topic '{path}': {error.text}") from None
    _check_differ(list(topic.subscriptions), f"topic '{path}': subscriptions")
    for name, subscription in topic.subscriptions.items():
        try:
            check_subscription_name(name)
            subscription_description(subscription.properties, name)
        except ServiceBusError as error:
            raise ValueError(
                f"subscription '{name}' of topic '{path}': {error.text}"
            ) from None
