"""What a queue was created with: its properties, their defaults and their limits.

Property names are those of the SDK's `QueueProperties`; durations are whole
milliseconds, and 0 where "for ever" is meant. A description is a value: an update
makes a new one. It is kept as a JSON object in which unknown names are refused on
creation and absent ones mean the default, so that later versions can add to it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final

from twinbus.broker.fragment_settings import FragmentSettings
from twinbus.errors import ArgumentError, ArgumentOutOfRange
from twinbus.limits import (
    DURATION_MS_UNLIMITED,
    LOCK_DURATION_MS,
    LOCK_DURATION_MS_MAX,
    LOCK_DURATION_MS_MIN,
    MAX_DELIVERY_COUNT,
    MAX_DELIVERY_COUNT_MAX,
    MAX_SIZE_IN_MEGABYTES,
    MESSAGE_BYTES_MAX,
    USER_METADATA_CHARACTERS,
)

STATUSES: Final = ("Active", "Disabled", "SendDisabled", "ReceiveDisabled")
RIGHTS: Final = ("Send", "Listen", "Manage")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRule:
    """A shared access rule of one entity (B4). Never printed with its keys."""

    key_name: str
    primary_key: str
    secondary_key: str = ""
    rights: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"AccessRule({self.key_name!r}, rights={self.rights})"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDescription:
    """The properties of a queue."""

    lock_duration_ms: int = LOCK_DURATION_MS
    max_size_in_megabytes: int = MAX_SIZE_IN_MEGABYTES[0]
    default_message_time_to_live_ms: int = 0
    dead_lettering_on_message_expiration: bool = False
    max_delivery_count: int = MAX_DELIVERY_COUNT
    # 0 means the namespace's limit.
    max_message_size_in_kilobytes: int = 0
    enable_batched_operations: bool = True
    status: str = "Active"
    user_metadata: str = ""
    authorization_rules: tuple[AccessRule, ...] = ()

    def settings(self, path: str) -> FragmentSettings:
        """The same as the queue's fragments need it."""
        return FragmentSettings(
            path=path,
            lock_duration_ms=self.lock_duration_ms,
            max_delivery_count=self.max_delivery_count,
            default_ttl_ms=self.default_message_time_to_live_ms,
            dead_letter_on_expiration=self.dead_lettering_on_message_expiration,
            max_size_bytes=self.max_size_in_megabytes * 1024 * 1024,
        )

    def may_send(self) -> bool:
        return self.status in ("Active", "ReceiveDisabled")

    def may_receive(self) -> bool:
        return self.status in ("Active", "SendDisabled")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def queue_description(
    properties: Mapping[str, Any],
    path: str,
    base: QueueDescription | None = None,
) -> QueueDescription:
    """A checked description: `properties` over `base` (or the defaults).

    Raises ArgumentError, ArgumentOutOfRange.
    """
    known = {field.name for field in fields(QueueDescription)}
    for name in properties:
        if name not in known:
            raise ArgumentError(
                f"A queue has no property '{name}'. It has: "
                f"{', '.join(sorted(known))}.",
                entity_path=path,
            )
    values = dict(properties)
    rules = values.get("authorization_rules")
    if rules is not None:
        values["authorization_rules"] = _access_rules(rules, path)
    # Before they are put into a description: a compiled one takes no other types.
    _check_types(values, path)
    description = replace(base or QueueDescription(), **values)
    _check_ranges(description, path)
    return _unlimited_as_zero(description)


def _access_rules(rules: object, path: str) -> tuple[AccessRule, ...]:
    if not isinstance(rules, list | tuple):
        raise ArgumentError(
            f"Property 'authorization_rules' of '{path}' must be a list.",
            entity_path=path,
        )
    return tuple(_access_rule(rule, path) for rule in rules)


def _access_rule(rule: object, path: str) -> AccessRule:
    """A rule as the catalog, the configuration or a request has it."""
    if isinstance(rule, AccessRule):
        return rule
    values = dict(rule) if isinstance(rule, dict) else {}
    rights = values.pop("rights", [])
    texts = {"secondary_key": "", **values}
    if (
        texts.keys() != {"key_name", "primary_key", "secondary_key"}
        or not all(isinstance(text, str) for text in texts.values())
        or not (texts["key_name"] and texts["primary_key"])
        or not isinstance(rights, list | tuple)
    ):
        raise ArgumentError(
            f"An access rule of '{path}' must have the texts 'key_name' and "
            "'primary_key', and may have a text 'secondary_key' and a list 'rights'.",
            entity_path=path,
        )
    return AccessRule(**texts, rights=tuple(rights))


def _check_types(values: Mapping[str, Any], path: str) -> None:
    default = QueueDescription()
    for name, value in values.items():
        expected = type(getattr(default, name))
        if type(value) is not expected:
            raise ArgumentError(
                f"Property '{name}' of '{path}' must be of type "
                f"{expected.__name__}, not {type(value).__name__}.",
                entity_path=path,
            )


def _check_ranges(description: QueueDescription, path: str) -> None:
    _check_between(
        "lock_duration",
        description.lock_duration_ms,
        LOCK_DURATION_MS_MIN,
        LOCK_DURATION_MS_MAX,
        path,
        " ms",
    )
    _check_between(
        "max_delivery_count",
        description.max_delivery_count,
        1,
        MAX_DELIVERY_COUNT_MAX,
        path,
    )
    _check_between(
        "default_message_time_to_live",
        description.default_message_time_to_live_ms,
        0,
        1 << 62,
        path,
        " ms",
    )
    _check_between(
        "max_message_size_in_kilobytes",
        description.max_message_size_in_kilobytes,
        0,
        MESSAGE_BYTES_MAX // 1024,
        path,
    )
    _check_between(
        "length of user_metadata",
        len(description.user_metadata),
        0,
        USER_METADATA_CHARACTERS,
        path,
    )
    _check_one_of(
        "max_size_in_megabytes",
        description.max_size_in_megabytes,
        MAX_SIZE_IN_MEGABYTES,
        path,
    )
    _check_one_of("status", description.status, STATUSES, path)
    for rule in description.authorization_rules:
        for right in rule.rights:
            _check_one_of(f"right of rule '{rule.key_name}'", right, RIGHTS, path)


def _check_between(
    name: str, value: int, low: int, high: int, path: str, unit: str = ""
) -> None:
    if not low <= value <= high:
        raise ArgumentOutOfRange(
            f"Property '{name}' of '{path}' is {value}{unit}; it must be from "
            f"{low}{unit} to {high}{unit}.",
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


def _unlimited_as_zero(description: QueueDescription) -> QueueDescription:
    """Every duration that means "for ever" is kept as 0."""
    if description.default_message_time_to_live_ms >= DURATION_MS_UNLIMITED:
        return replace(description, default_message_time_to_live_ms=0)
    return description
