"""The properties of a queue, and their defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from twinbus.broker.descriptions.access_rule import AccessRule
from twinbus.broker.descriptions.checks import checked_properties, differences
from twinbus.broker.fragment_settings import FragmentSettings
from twinbus.limits import (
    DUPLICATE_WINDOW_MS,
    LOCK_DURATION_MS,
    MAX_DELIVERY_COUNT,
    MAX_SIZE_IN_MEGABYTES,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDescription:
    """The properties of a queue."""

    lock_duration_ms: int = LOCK_DURATION_MS
    max_size_in_megabytes: int = MAX_SIZE_IN_MEGABYTES[0]
    requires_duplicate_detection: bool = False
    requires_session: bool = False
    default_message_time_to_live_ms: int = 0
    dead_lettering_on_message_expiration: bool = False
    duplicate_detection_history_time_window_ms: int = DUPLICATE_WINDOW_MS
    max_delivery_count: int = MAX_DELIVERY_COUNT
    enable_batched_operations: bool = True
    authorization_rules: tuple[AccessRule, ...] = ()
    status: str = "Active"
    # As the client wrote it, a path or a URI; see `forward_path`.
    forward_to: str = ""
    user_metadata: str = ""
    # 0: the queue is not deleted when it is idle.
    auto_delete_on_idle_ms: int = 0
    enable_partitioning: bool = False
    forward_dead_lettered_messages_to: str = ""
    enable_express: bool = False
    # 0: the limit of the namespace.
    max_message_size_in_kilobytes: int = 0

    def settings(self, path: str) -> FragmentSettings:
        """The settings for the queue's fragments."""
        return FragmentSettings(
            path=path,
            lock_duration_ms=self.lock_duration_ms,
            max_delivery_count=self.max_delivery_count,
            default_ttl_ms=self.default_message_time_to_live_ms,
            dead_letter_on_expiration=self.dead_lettering_on_message_expiration,
            max_size_bytes=self.max_size_in_megabytes * 1024 * 1024,
            takes_messages=self.may_send(),
            requires_session=self.requires_session,
            duplicate_window_ms=(
                self.duplicate_detection_history_time_window_ms
                if self.requires_duplicate_detection
                else 0
            ),
        )

    def may_send(self) -> bool:
        return self.status in ("Active", "ReceiveDisabled")

    def may_receive(self) -> bool:
        return self.status in ("Active", "SendDisabled")

    def to_json(self) -> dict[str, Any]:
        """The properties that differ from the defaults, for the catalog."""
        return differences(self, _DEFAULTS)


_DEFAULTS: Final = QueueDescription()


def queue_description(
    properties: Mapping[str, Any], path: str, base: QueueDescription | None = None
) -> QueueDescription:
    """A checked description: `properties` over `base` (or the defaults).

    Raises ArgumentError, ArgumentOutOfRange, NotAllowed.
    """
    values = checked_properties(
        properties, base or _DEFAULTS, path, is_update=base is not None
    )
    return replace(base or _DEFAULTS, **values)
