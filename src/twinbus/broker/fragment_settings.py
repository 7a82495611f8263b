"""The settings of an entity that its fragments use.

They are flat integers and flags, so that the hot path only reads attributes. They are
built again when the entity is updated.
"""

from dataclasses import dataclass
from typing import Final, final

from twinbus.limits import (
    LOCK_DURATION_MS,
    MAX_DELIVERY_COUNT,
    MAX_SIZE_IN_MEGABYTES,
)

NO_LIMIT: Final = (1 << 63) - 1


@final
@dataclass(slots=True, kw_only=True)
class FragmentSettings:
    """The settings of one fragment. An update of its entity changes them in place."""

    # Entity path as it was created, for error texts.
    path: str
    lock_duration_ms: int = LOCK_DURATION_MS
    max_delivery_count: int = MAX_DELIVERY_COUNT
    # 0: messages do not expire.
    default_ttl_ms: int = 0
    dead_letter_on_expiration: bool = False
    max_size_bytes: int = MAX_SIZE_IN_MEGABYTES[0] * 1024 * 1024
    # Messages belong to sessions, each received by one receiver at a time.
    requires_session: bool = False
    # How long message ids are remembered to find duplicates; 0: no detection.
    duplicate_window_ms: int = 0
    # False if the status of the entity refuses messages.
    takes_messages: bool = True
    # In a dead-letter queue messages have neither time to live nor delivery limit.
    is_dead_letter_queue: bool = False


def dead_letter_settings(
    main: FragmentSettings, suffix: str = "/$DeadLetterQueue"
) -> FragmentSettings:
    """The settings of the dead-letter queue of a fragment with these settings."""
    return FragmentSettings(
        path=main.path + suffix,
        lock_duration_ms=main.lock_duration_ms,
        max_delivery_count=NO_LIMIT,
        max_size_bytes=NO_LIMIT,
        is_dead_letter_queue=True,
    )
