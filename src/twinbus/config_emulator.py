"""The vendor emulator's `Config.json`, so that a project can bring its own.

Read is what it says about queues. What this bus would not do is refused and named
with its place, except where the file only repeats a default. The namespace's name
and the logging section have no meaning here.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from twinbus.durations import duration_ms

_DURATIONS: Final = {
    "LockDuration": "lock_duration_ms",
    "DefaultMessageTimeToLive": "default_message_time_to_live_ms",
}
_PLAIN: Final = {
    "DeadLetteringOnMessageExpiration": "dead_lettering_on_message_expiration",
    "MaxDeliveryCount": "max_delivery_count",
}
_OFF_BY_DEFAULT: Final = (
    "RequiresSession",
    "RequiresDuplicateDetection",
    "ForwardTo",
    "ForwardDeadLetteredMessagesTo",
)
_WITHOUT_EFFECT: Final = ("DuplicateDetectionHistoryTimeWindow",)


def queues_of_emulator(document: object) -> dict[str, dict[str, Any]]:
    """Queues and their properties. Raises ValueError for what can't be honoured."""
    user_config = _object(_object(document, "the file").get("UserConfig"), "UserConfig")
    namespaces = list(_objects(user_config, "Namespaces", "UserConfig"))
    if len(namespaces) > 1:
        raise ValueError("more than one namespace; this server has one")
    found: dict[str, dict[str, Any]] = {}
    for namespace in namespaces:
        if namespace.get("Topics"):
            raise ValueError("topics are not supported yet; remove 'Topics'")
        for queue in _objects(namespace, "Queues", "the namespace"):
            name = queue.get("Name")
            if not isinstance(name, str):
                raise ValueError("a queue has no 'Name'")
            found[name] = _properties(name, queue.get("Properties"))
    return found


def _object(value: object, where: str) -> Mapping[str, Any]:
    """A JSON object; what is absent is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{where} must be a JSON object")
    return value


def _objects(
    parent: Mapping[str, Any], name: str, where: str
) -> Iterator[Mapping[str, Any]]:
    value = parent.get(name) or []
    if not isinstance(value, list):
        raise ValueError(f"'{name}' of {where} must be a JSON array")
    for item in value:
        yield _object(item, f"an item of '{name}'")


def _properties(queue: str, properties: object) -> dict[str, Any]:
    converted: dict[str, Any] = {}
    for name, value in _object(properties, f"'Properties' of '{queue}'").items():
        if name in _DURATIONS:
            converted[_DURATIONS[name]] = _duration_ms(queue, name, value)
        elif name in _PLAIN:
            converted[_PLAIN[name]] = value
        elif name in _OFF_BY_DEFAULT:
            if value:
                raise ValueError(f"queue '{queue}': {name} is not supported yet")
        elif name not in _WITHOUT_EFFECT:
            raise ValueError(f"queue '{queue}': unknown property {name}")
    return converted


def _duration_ms(queue: str, name: str, value: object) -> int:
    try:
        return duration_ms(value)
    except ValueError as error:
        raise ValueError(f"queue '{queue}': {name}: {error}") from None
