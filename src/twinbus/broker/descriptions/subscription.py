"""The properties of a subscription, and their defaults.

A subscription gets messages from its topic whatever its status is; the status only says
whether clients may receive. Its size counts against the topic's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from twinbus.broker.descriptions.checks import checked_properties, differences
from twinbus.broker.fragment_settings import NO_LIMIT, FragmentSettings
from twinbus.limits import LOCK_DURATION_MS, MAX_DELIVERY_COUNT


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionDescription:
    """The properties of a subscription."""

    lock_duration_ms: int = LOCK_DURATION_MS
    requires_session: bool = False
    default_message_time_to_live_ms: int = 0
    dead_lettering_on_message_expiration: bool = False
    dead_lettering_on_filter_evaluation_exceptions: bool = True
    max_delivery_count: int = MAX_DELIVERY_COUNT
    enable_batched_operations: bool = True
    status: str = "Active"
    # As the client wrote it, a path or a URI; see `forward_path`.
    forward_to: str = ""
    user_metadata: str = ""
    forward_dead_lettered_messages_to: str = ""
    # 0: the subscription is not deleted when it is idle.
    auto_delete_on_idle_ms: int = 0

    def settings(self, path: str) -> FragmentSettings:
        """The settings for the subscription's fragments."""
        return FragmentSettings(
            path=path,
            lock_duration_ms=self.lock_duration_ms,
            max_delivery_count=self.max_delivery_count,
            default_ttl_ms=self.default_message_time_to_live_ms,
            dead_letter_on_expiration=self.dead_lettering_on_message_expiration,
            max_size_bytes=NO_LIMIT,
            requires_session=self.requires_session,
        )

    def may_receive(self) -> bool:
        return self.status in ("Active", "SendDisabled")

    def to_json(self) -> dict[str, Any]:
        """The properties that differ from the defaults, for the catalog."""
        return differences(self, _DEFAULTS)


_DEFAULTS: Final = SubscriptionDescription()


def subscription_description(
    properties: Mapping[str, Any],
    path: str,
    base: SubscriptionDescription | None = None,
) -> SubscriptionDescription:
    """A checked description: `properties` over `base` (or the defaults).

    Raises ArgumentError, ArgumentOutOfRange, NotAllowed.
    """
    values = checked_properties(
        properties, base or _DEFAULTS, path, is_update=base is not None
    )
    return replace(base or _DEFAULTS, **values)
