"""The vendor emulator's `Config.json`, so that a project can bring its own.

Only what that file says about queues is read; a topic in it is refused, because
this version of the bus would not have it.
"""

from collections.abc import Mapping
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


def queues_of_emulator(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Queues and their properties. Raises ValueError for what can't be honoured."""
    namespaces = document.get("UserConfig", {}).get("Namespaces", [])
    if len(namespaces) > 1:
        raise ValueError("more than one namespace; this server has one")
    found: dict[str, dict[str, Any]] = {}
    for namespace in namespaces:
        if namespace.get("Topics"):
            raise ValueError("topics are not supported yet; remove 'Topics'")
        for queue in namespace.get("Queues") or []:
            properties = queue.get("Properties") or {}
            found[queue["Name"]] = _properties(queue["Name"], properties)
    return found


def _properties(queue: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    converted: dict[str, Any] = {}
    for name, value in properties.items():
        if name in _DURATIONS:
            converted[_DURATIONS[name]] = duration_ms(value)
        elif name in _PLAIN:
            converted[_PLAIN[name]] = value
        elif name in _OFF_BY_DEFAULT:
            if value:
                raise ValueError(f"queue '{queue}': {name} is not supported yet")
        elif name not in _WITHOUT_EFFECT:
            raise ValueError(f"queue '{queue}': unknown property {name}")
    return converted
