"""The vendor emulator's `Config.json`, so that a project can bring its own.

Read is what it says about queues, topics, subscriptions and rules. An unknown name is
refused and named with its place. The namespace's name and the logging section have no
meaning here; what the file leaves out has the service's default and not the
emulator's, which are made for short tests.
"""

from collections.abc import Mapping
from typing import Any, Final

from twinbus.config.entities import (
    DeclaredEntities,
    DeclaredSubscription,
    DeclaredTopic,
    check_names,
    checked_entities,
    entity_properties,
)
from twinbus.config.rules import written_rules
from twinbus.limits import DUPLICATE_WINDOW_MS_MIN
from twinbus.rules.rule import Rule

_TOPIC: Final = {
    "DefaultMessageTimeToLive": "default_message_time_to_live",
    "DuplicateDetectionHistoryTimeWindow": "duplicate_detection_history_time_window",
    "RequiresDuplicateDetection": "requires_duplicate_detection",
}
_SUBSCRIPTION: Final = {
    "DeadLetteringOnMessageExpiration": "dead_lettering_on_message_expiration",
    "DefaultMessageTimeToLive": "default_message_time_to_live",
    "ForwardDeadLetteredMessagesTo": "forward_dead_lettered_messages_to",
    "ForwardTo": "forward_to",
    "LockDuration": "lock_duration",
    "MaxDeliveryCount": "max_delivery_count",
    "RequiresSession": "requires_session",
}
_QUEUE: Final = {**_TOPIC, **_SUBSCRIPTION}

_WINDOW: Final = "duplicate_detection_history_time_window_ms"

_CORRELATION: Final = {
    "ContentType": "content_type",
    "CorrelationId": "correlation_id",
    "Label": "label",
    "MessageId": "message_id",
    "Properties": "properties",
    "ReplyTo": "reply_to",
    "ReplyToSessionId": "reply_to_session_id",
    "SessionId": "session_id",
    "To": "to",
}
_FILTERS: Final = {"Sql": "SqlFilter", "Correlation": "CorrelationFilter"}


def entities_of_emulator(document: object) -> DeclaredEntities:
    """What the file declares. Raises ValueError for what can't be honoured."""
    user_config = _object(_object(document, "the file").get("UserConfig"), "UserConfig")
    namespaces = _objects(user_config, "Namespaces", "UserConfig")
    if len(namespaces) > 1:
        raise ValueError(
            "more than one namespace, and a Config.json has one; a TOML file has "
            "further ones as [namespaces.NAME]"
        )
    entities = DeclaredEntities()
    for namespace in namespaces:
        check_names(namespace, ("Name", "Queues", "Topics"), "the namespace", "name")
        entities = DeclaredEntities(
            queues=_queues(namespace), topics=_topics(namespace)
        )
    return checked_entities(entities)


def _queues(namespace: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    found = {}
    for name, queue in _named(namespace, "Queues", "the namespace", "queue").items():
        where = f"queue '{name}'"
        check_names(queue, ("Name", "Properties"), where, "name")
        found[name] = _properties(queue, _QUEUE, where)
    return found


def _topics(namespace: Mapping[str, Any]) -> dict[str, DeclaredTopic]:
    found = {}
    for name, topic in _named(namespace, "Topics", "the namespace", "topic").items():
        where = f"topic '{name}'"
        check_names(topic, ("Name", "Properties", "Subscriptions"), where, "name")
        found[name] = DeclaredTopic(
            properties=_properties(topic, _TOPIC, where),
            subscriptions=_subscriptions(topic, where),
        )
    return found


def _subscriptions(
    topic: Mapping[str, Any], topic_name: str
) -> dict[str, DeclaredSubscription]:
    found = {}
    named = _named(topic, "Subscriptions", topic_name, "subscription")
    for name, subscription in named.items():
        where = f"subscription '{name}' of {topic_name}"
        check_names(subscription, ("Name", "Properties", "Rules"), where, "name")
        found[name] = DeclaredSubscription(
            properties=_properties(subscription, _SUBSCRIPTION, where),
            rules=_rules(subscription, where),
        )
    return found


def _rules(subscription: Mapping[str, Any], where: str) -> tuple[Rule, ...] | None:
    """None without any: the emulator gives such a subscription every message."""
    tables = []
    for name, rule in _named(subscription, "Rules", where, "rule").items():
        place = f"{where} rule '{name}'"
        check_names(rule, ("Name", "Properties"), place, "name")
        properties = _object(rule.get("Properties"), f"'Properties' of {place}")
        tables.append({"name": name, **_rule(properties, place)})
    return written_rules(tables, where) if tables else None


def _rule(properties: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The same as a table of our own file."""
    check_names(
        properties, ("FilterType", *_FILTERS.values(), "Action"), where, "property"
    )
    kind = properties.get("FilterType")
    if kind not in _FILTERS:
        raise ValueError(
            f"{where}: FilterType is {kind!r}; it must be one of {', '.join(_FILTERS)}"
        )
    given = _object(properties.get(_FILTERS[kind]), f"{where}: {_FILTERS[kind]}")
    rule: dict[str, Any] = {}
    if kind == "Sql":
        rule["sql_filter"] = _expression(given, f"{where}: SqlFilter")
    else:
        place = f"{where}: CorrelationFilter"
        check_names(given, tuple(_CORRELATION), place, "property")
        rule["correlation_filter"] = {
            _CORRELATION[name]: value for name, value in given.items()
        }
    action = _object(properties.get("Action"), f"{where}: Action")
    if action:
        rule["action"] = _expression(action, f"{where}: Action")
    return rule


def _expression(value: Mapping[str, Any], where: str) -> object:
    check_names(value, ("SqlExpression",), where, "property")
    if "SqlExpression" not in value:
        raise ValueError(f"{where}: 'SqlExpression' is missing")
    return value["SqlExpression"]


def _properties(
    entity: Mapping[str, Any], known: Mapping[str, str], where: str
) -> dict[str, Any]:
    given = dict(_object(entity.get("Properties"), f"'Properties' of {where}"))
    check_names(given, tuple(known), where, "property")
    if not given.get("RequiresDuplicateDetection"):
        # Without effect then, and the emulator's shortest is shorter than ours.
        given.pop("DuplicateDetectionHistoryTimeWindow", None)
    converted: dict[str, Any] = {}
    for name, value in given.items():
        try:
            converted |= entity_properties({known[name]: value})
        except ValueError as error:
            text = str(error).removeprefix(known[name])
            raise ValueError(f"{where}: {name}{text}") from None
    # The emulator allows five seconds; a longer window drops no message that differs.
    if 0 < converted.get(_WINDOW, 0) < DUPLICATE_WINDOW_MS_MIN:
        converted[_WINDOW] = DUPLICATE_WINDOW_MS_MIN
    return converted


def _named(
    parent: Mapping[str, Any], name: str, where: str, noun: str
) -> dict[str, Mapping[str, Any]]:
    """The objects of an array by their names, which are all there and differ."""
    found: dict[str, Mapping[str, Any]] = {}
    for item in _objects(parent, name, where):
        given = item.get("Name")
        if not isinstance(given, str):
            raise ValueError(f"a {noun} of {where} has no 'Name'")
        if found.setdefault(given, item) is not item:
            raise ValueError(f"two {noun}s of {where} are called '{given}'")
    return found


def _objects(
    parent: Mapping[str, Any], name: str, where: str
) -> list[Mapping[str, Any]]:
    value = parent.get(name) or []
    if not isinstance(value, list):
        raise ValueError(f"'{name}' of {where} must be a JSON array")
    return [_object(item, f"an item of '{name}'") for item in value]


def _object(value: object, where: str) -> Mapping[str, Any]:
    """A JSON object; what is absent is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{where} must be a JSON object")
    return value
