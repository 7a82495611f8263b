"""What a fragment needs to know of its entity's description.

Flat integers and flags, so that the hot path reads an attribute instead of a
description; rebuilt when the entity is updated.
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
    """The rules of one fragment. Changed in place by an update of its entity."""

    # Entity path as it was created, for error texts.
    path: str
    lock_duration_ms: int = LOCK_DURATION_MS
    max_delivery_count: int = MAX_DELIVERY_COUNT
    # 0 means that messages live for ever.
    default_ttl_ms: int = 0
    dead_letter_on_expiration: bool = False
    max_size_bytes: int = MAX_SIZE_IN_MEGABYTES[0] * 1024 * 1024
    # Messages belong to sessions, each received by one receiver at a time.
    requires_session: bool = False
    # How long message ids are remembered to find duplicates; 0: they are not.
    duplicate_window_ms: int = 0
    # Its status lets messages in.
    takes_messages: bool = True
    # A dead-letter queue observes neither time to live nor delivery limit.
    is_dead_letter_queue: bool = False


def dead_letter_settings(
    main: FragmentSettings, suffix: str = "/$DeadLetterQueue"
) -> FragmentSettings:
    """The rules of the dead-letter queue of a fragment with these rules."""
    return FragmentSettings(
        path=main.path + suffix,
        lock_duration_ms=main.lock_duration_ms,
        max_delivery_count=NO_LIMIT,
        max_size_bytes=NO_LIMIT,
        is_dead_letter_queue=True,
    )
