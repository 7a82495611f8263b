"""The settings of a syphon, with their reasons; times are in milliseconds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

POLL_MS: Final = 15 * 60_000
"""P12: an idle queue is asked four times an hour."""

FIRST_PROBE_MS: Final = 1_000
LAST_PROBE_MS: Final = 60_000
"""The first and the longest time before a parked entity is tried again."""

LAST_LOOK_MS: Final = 10_000
"""The same for a primary that cannot be reached at all: trying it is a connection, and
not an operation that is billed."""

BUSY_WAIT_MS: Final = 10_000
"""What every client of a busy server waits at least (A2)."""

MISSING_ENTITY_GRACE_MS: Final = 60 * 60_000
"""How long messages wait for an entity that does not exist: long enough for somebody
to make it again, short enough to be noticed."""

ATTEMPT_TIMEOUT_MS: Final = 10_000
"""One attempt at the primary; several fit into the lock of a message (P4)."""

RESCAN_MS: Final = 60 * 60_000
"""How often to look for deferred messages that another syphon left behind."""

BATCH_COUNT: Final = 500
"""Messages that one worker receives at a time, at most; see `pace.py`."""

DISCOVERY_MS: Final = 60_000
"""How often to look for new backlog queues."""

ONCE_WAIT_MS: Final = 1_000
"""How long nothing must come from a queue before it counts as empty."""

USER_AGENT: Final = "twinbus-syphon"
"""How its connections begin to say who they are, so that the operation log of a twinbus
tells what a syphon did from what applications do."""

LEASE: Final = "lease"
LEASE_SESSION: Final = "syphon"
"""The session whose lock is the right to run the syphon, and the last part of the path
of its queue, where other paths have an index."""

LEASE_RENEWAL_MS: Final = 5_000
"""Well within the lock of a session, which is a minute by default: a lost lease is
noticed soon."""


def covers_all(path: str) -> bool:
    """The pair covers every entity."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class SyphonSettings:
    """The settings of one syphon."""

    poll_ms: int = POLL_MS
    first_probe_ms: int = FIRST_PROBE_MS
    last_probe_ms: int = LAST_PROBE_MS
    busy_wait_ms: int = BUSY_WAIT_MS
    missing_entity_grace_ms: int = MISSING_ENTITY_GRACE_MS
    attempt_timeout_ms: int = ATTEMPT_TIMEOUT_MS
    rescan_ms: int = RESCAN_MS
    batch_count: int = BATCH_COUNT
    discovery_ms: int = DISCOVERY_MS
    once_wait_ms: int = ONCE_WAIT_MS
    lease_renewal_ms: int = LEASE_RENEWAL_MS
    # Which entities of the primary it may send to (P12).
    covers: Callable[[str], bool] = covers_all
    # The time in the backlog counts as life of a message.
    count_backlog_against_ttl: bool = False
    # No message is restored while an older one of its queue is locked by another
    # receiver.
    keeps_order: bool = False
    # End when the queues are empty, or have only messages of parked entities.
    until_empty: bool = False
