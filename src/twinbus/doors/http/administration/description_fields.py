"""Maps XML elements of descriptions to properties, in the order of the wire.

The order is that of the service's data contracts; old clients depend on it. Elements
without a property are read-only: they are written from the entity, and ignored in
requests, which often include them.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final


class FieldKind(Enum):
    """How a property is written."""

    TEXT = auto()
    NUMBER = auto()
    BOOLEAN = auto()
    DURATION = auto()
    ACCESS_RULES = auto()


@dataclass(frozen=True, slots=True)
class Field:
    """An element, and its property if it can be set."""

    element: str
    property: str = ""
    kind: FieldKind = FieldKind.TEXT


_LOCK_DURATION: Final = Field("LockDuration", "lock_duration_ms", FieldKind.DURATION)
_MAX_SIZE: Final = Field(
    "MaxSizeInMegabytes", "max_size_in_megabytes", FieldKind.NUMBER
)
_DUPLICATES: Final = Field(
    "RequiresDuplicateDetection", "requires_duplicate_detection", FieldKind.BOOLEAN
)
_SESSIONS: Final = Field("RequiresSession", "requires_session", FieldKind.BOOLEAN)
_TIME_TO_LIVE: Final = Field(
    "DefaultMessageTimeToLive", "default_message_time_to_live_ms", FieldKind.DURATION
)
_DEAD_LETTERING: Final = Field(
    "DeadLetteringOnMessageExpiration",
    "dead_lettering_on_message_expiration",
    FieldKind.BOOLEAN,
)
_WINDOW: Final = Field(
    "DuplicateDetectionHistoryTimeWindow",
    "duplicate_detection_history_time_window_ms",
    FieldKind.DURATION,
)
_DELIVERIES: Final = Field("MaxDeliveryCount", "max_delivery_count", FieldKind.NUMBER)
_BATCHED: Final = Field(
    "EnableBatchedOperations", "enable_batched_operations", FieldKind.BOOLEAN
)
_ACCESS_RULES: Final = Field(
    "AuthorizationRules", "authorization_rules", FieldKind.ACCESS_RULES
)
_STATUS: Final = Field("Status", "status")
_FORWARD_TO: Final = Field("ForwardTo", "forward_to")
_USER_METADATA: Final = Field("UserMetadata", "user_metadata")
_ON_IDLE: Final = Field(
    "AutoDeleteOnIdle", "auto_delete_on_idle_ms", FieldKind.DURATION
)
_PARTITIONING: Final = Field(
    "EnablePartitioning", "enable_partitioning", FieldKind.BOOLEAN
)
_FORWARD_DEAD_LETTERS: Final = Field(
    "ForwardDeadLetteredMessagesTo", "forward_dead_lettered_messages_to"
)
_EXPRESS: Final = Field("EnableExpress", "enable_express", FieldKind.BOOLEAN)
_MAX_MESSAGE_SIZE: Final = Field(
    "MaxMessageSizeInKilobytes", "max_message_size_in_kilobytes", FieldKind.NUMBER
)
_TIMES: Final = (Field("CreatedAt"), Field("UpdatedAt"), Field("AccessedAt"))
_COUNTS: Final = Field("CountDetails")
_AVAILABILITY: Final = Field("EntityAvailabilityStatus")

QUEUE_FIELDS: Final = (
    *(_LOCK_DURATION, _MAX_SIZE, _DUPLICATES, _SESSIONS, _TIME_TO_LIVE),
    *(_DEAD_LETTERING, _WINDOW, _DELIVERIES, _BATCHED),
    *(Field("SizeInBytes"), Field("MessageCount"), Field("IsAnonymousAccessible")),
    *(_ACCESS_RULES, _STATUS, _FORWARD_TO, _USER_METADATA, *_TIMES),
    *(Field("SupportOrdering"), _COUNTS, _ON_IDLE, _PARTITIONING, _AVAILABILITY),
    *(_FORWARD_DEAD_LETTERS, _EXPRESS, _MAX_MESSAGE_SIZE),
)

TOPIC_FIELDS: Final = (
    *(_TIME_TO_LIVE, _MAX_SIZE, _DUPLICATES, _WINDOW, _BATCHED, Field("SizeInBytes")),
    Field(
        "FilteringMessagesBeforePublishing",
        "filtering_messages_before_publishing",
        FieldKind.BOOLEAN,
    ),
    *(Field("IsAnonymousAccessible"), _ACCESS_RULES, _STATUS, _USER_METADATA, *_TIMES),
    Field("SupportOrdering", "support_ordering", FieldKind.BOOLEAN),
    *(_COUNTS, Field("SubscriptionCount"), Field("SqlFilterCount")),
    *(Field("CorrelationFilterCount"), _ON_IDLE, _PARTITIONING, _AVAILABILITY),
    Field(
        "EnableSubscriptionPartitioning",
        "enable_subscription_partitioning",
        FieldKind.BOOLEAN,
    ),
    *(_EXPRESS, _MAX_MESSAGE_SIZE),
)

SUBSCRIPTION_FIELDS: Final = (
    *(_LOCK_DURATION, _SESSIONS, _TIME_TO_LIVE, _DEAD_LETTERING),
    Field(
        "DeadLetteringOnFilterEvaluationExceptions",
        "dead_lettering_on_filter_evaluation_exceptions",
        FieldKind.BOOLEAN,
    ),
    *(Field("MessageCount"), _DELIVERIES, _BATCHED, _STATUS, _FORWARD_TO, *_TIMES),
    *(_COUNTS, _USER_METADATA, _FORWARD_DEAD_LETTERS, _ON_IDLE, _AVAILABILITY),
)

CLEARED_BY_ABSENCE: Final = (
    "ForwardTo",
    "ForwardDeadLetteredMessagesTo",
    "UserMetadata",
)
"""Clients send all properties in an update, and leave out those that are null."""
