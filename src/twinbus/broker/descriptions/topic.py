"""The properties of a topic, and their defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from twinbus.broker.descriptions.access_rule import AccessRule
from twinbus.broker.descriptions.checks import checked_properties, differences
from twinbus.broker.fragment_settings import FragmentSettings
from twinbus.limits import DUPLICATE_WINDOW_MS, MAX_SIZE_IN_MEGABYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """The properties of a topic."""

    default_message_time_to_live_ms: int = 0
    max_size_in_megabytes: int = MAX_SIZE_IN_MEGABYTES[0]
    requires_duplicate_detection: bool = False
    duplicate_detection_history_time_window_ms: int = DUPLICATE_WINDOW_MS
    enable_batched_operations: bool = True
    filtering_messages_before_publishing: bool = False
    authorization_rules: tuple[AccessRule, ...] = ()
    status: str = "Active"
    user_metadata: str = ""
    # Stored and shown only; messages of a topic are always in order here.
    support_ordering: bool = True
    # 0: the topic is not deleted when it is idle.
    auto_delete_on_idle_ms: int = 0
    enable_partitioning: bool = False
    enable_subscription_partitioning: bool = False
    enable_express: bool = False
    # 0: the limit of the namespace.
    max_message_size_in_kilobytes: int = 0

    def settings(self, path: str) -> FragmentSettings:
        """The settings for the topic's fragments."""
        return FragmentSettings(
            path=path,
            default_ttl_ms=self.default_message_time_to_live_ms,
            max_size_bytes=self.max_size_in_megabytes * 1024 * 1024,
            takes_messages=self.may_send(),
            duplicate_window_ms=(
                self.duplicate_detection_history_time_window_ms
                if self.requires_duplicate_detection
                else 0
            ),
        )

    def may_send(self) -> bool:
        return self.status in ("Active", "ReceiveDisabled")

    def to_json(self) -> dict[str, Any]:
        """The properties that differ from the defaults, for the catalog."""
        return differences(self, _DEFAULTS)


_DEFAULTS: Final = TopicDescription()


def topic_description(
    properties: Mapping[str, Any], path: str, base: TopicDescription | None = None
) -> TopicDescription:
    """A checked description: `properties` over `base` (or the defaults).

    Raises ArgumentError, ArgumentOutOfRange, NotAllowed.
    """
    values = checked_properties(
        properties, base or _DEFAULTS, path, is_update=base is not None
    )
    return replace(base or _DEFAULTS, **values)
