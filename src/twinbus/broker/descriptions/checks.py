"""Checks the properties of all kinds of entities: names, types, ranges, changes.

Only given properties are checked: the defaults are valid, and the others were checked
before. Types come first, because a compiled description accepts no others. Whether a
forward target exists is checked by the namespace.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, fields
from typing import Any, Final

from twinbus.broker.descriptions.access_rule import access_rules
from twinbus.errors import ArgumentError, ArgumentOutOfRange, NotAllowed
from twinbus.limits import (
    AUTO_DELETE_ON_IDLE_MS_MIN,
    DUPLICATE_WINDOW_MS_MAX,
    DUPLICATE_WINDOW_MS_MIN,
    DURATION_MS_UNLIMITED,
    LOCK_DURATION_MS_MAX,
    LOCK_DURATION_MS_MIN,
    MAX_DELIVERY_COUNT_MAX,
    MAX_SIZE_IN_MEGABYTES,
    MESSAGE_BYTES_MAX,
    USER_METADATA_CHARACTERS,
)

STATUSES: Final = ("Active", "Disabled", "SendDisabled", "ReceiveDisabled")

_ANY_DURATION_MS: Final = (1 << 62) - 1

# Lowest and highest value; 0 is also allowed where it means no limit.
_RANGES: Final[dict[str, tuple[int, int]]] = {
    "lock_duration_ms": (LOCK_DURATION_MS_MIN, LOCK_DURATION_MS_MAX),
    "max_delivery_count": (1, MAX_DELIVERY_COUNT_MAX),
    "default_message_time_to_live_ms": (0, _ANY_DURATION_MS),
    "duplicate_detection_history_time_window_ms": (
        DUPLICATE_WINDOW_MS_MIN,
        DUPLICATE_WINDOW_MS_MAX,
    ),
    "auto_delete_on_idle_ms": (AUTO_DELETE_ON_IDLE_MS_MIN, _ANY_DURATION_MS),
    "max_message_size_in_kilobytes": (0, MESSAGE_BYTES_MAX // 1024),
}
_CHOICES: Final[dict[str, tuple[object, ...]]] = {
    "max_size_in_megabytes": MAX_SIZE_IN_MEGABYTES,
    "status": STATUSES,
}
_MAY_BE_UNLIMITED: Final = ("default_message_time_to_live_ms", "auto_delete_on_idle_ms")

_IMMUTABLE: Final = (
    "requires_session",
    "requires_duplicate_detection",
    "enable_partitioning",
    "enable_subscription_partitioning",
)


def checked_properties(
    properties: Mapping[str, Any], base: Any, path: str, *, is_update: bool
) -> dict[str, Any]:
    """The checked properties; values that mean no limit are 0.

    `base` is the description that they change: the one being updated, or the defaults.
    Raises ArgumentError, ArgumentOutOfRange, NotAllowed.
    """
    _check_names(properties, {field.name for field in fields(base)}, path)
    values = dict(properties)
    if "authorization_rules" in values:
        rules = access_rules(values["authorization_rules"], path)
        values["authorization_rules"] = rules
    _check_types(values, base, path)
    for name in _MAY_BE_UNLIMITED:
        if values.get(name, 0) >= DURATION_MS_UNLIMITED:
            values[name] = 0
    for name, value in values.items():
        _check_value(name, value, path)
    if is_update:
        _check_unchanged(values, base, path)
    return values


def differences(description: Any, defaults: Any) -> dict[str, Any]:
    """The properties of a description that are not the default, for JSON."""
    return {
        name: value
        for name, value in asdict(description).items()
        if getattr(description, name) != getattr(defaults, name)
    }


def _check_names(
    properties: Mapping[str, Any], known: Collection[str], path: str
) -> None:
    for name in properties:
        if name not in known:
            raise ArgumentError(
                f"'{path}' has no property '{name}'. It has: "
                f"{', '.join(sorted(known))}.",
                entity_path=path,
            )


def _check_types(values: Mapping[str, Any], base: Any, path: str) -> None:
    for name, value in values.items():
        expected = type(getattr(base, name))
        if type(value) is not expected:
            raise ArgumentError(
                f"Property '{name}' of '{path}' must be of type "
                f"{expected.__name__}, not {type(value).__name__}.",
                entity_path=path,
            )


def _check_value(name: str, value: Any, path: str) -> None:
    if name in _RANGES and not (value == 0 and name in _MAY_BE_UNLIMITED):
        low, high = _RANGES[name]
        _check_between(name, value, low, high, path)
    elif name in _CHOICES:
        _check_one_of(name, value, _CHOICES[name], path)
    elif name == "user_metadata":
        length = f"length of {name}"
        _check_between(length, len(value), 0, USER_METADATA_CHARACTERS, path)


def _check_between(name: str, value: int, low: int, high: int, path: str) -> None:
    unit = " ms" if name.endswith("_ms") else ""
    if not low <= value <= high:
        raise ArgumentOutOfRange(
            f"Property '{name.removesuffix('_ms')}' of '{path}' is {value}{unit}; it "
            f"must be from {low}{unit} to {high}{unit}.",
            entity_path=path,
        )


def _check_one_of(
    name: str, value: object, allowed: tuple[object, ...], path: str
) -> None:
    if value not in allowed:
        raise ArgumentOutOfRange(
            f"Property '{name}' of '{path}' is {value}; it must be one of "
            f"{', '.join(map(str, allowed))}.",
            entity_path=path,
        )


def _check_unchanged(values: Mapping[str, Any], base: Any, path: str) -> None:
    for name in _IMMUTABLE:
        if name in values and values[name] != getattr(base, name):
            raise NotAllowed(
                f"Property '{name}' of '{path}' is {getattr(base, name)} and cannot be "
                f"changed to {values[name]}: it is set when an entity is created. "
                "Delete the entity and create it again.",
                entity_path=path,
            )
