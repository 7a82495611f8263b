"""The settings of a pair: checked, with times in milliseconds.

They are made from the options that an application writes (`options.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from twinbus.pairing.failures import VERDICTS, FailureKind, Verdict

BACKLOG_QUEUE_COUNT: Final = 10
FAILOVER_INTERVAL_MS: Final = 60_000
PING_PRIMARY_INTERVAL_MS: Final = 60_000
"""The defaults of P2."""

ATTEMPT_TIMEOUT_MS: Final = 10_000
"""One attempt: long enough for a slow commit, short enough to notice a frozen one."""

SEND_TIMEOUT_MS: Final = 60_000
"""Of a send without a time-out of its own, besides the failover interval."""

BUSY_WAIT_MS: Final = 10_000
"""What every client of a busy server waits at least (A2)."""

BACKLOG_RETRY_MS: Final = 30_000
"""How long a backlog queue that failed stays out of rotation (P8)."""

PAIRING_TIMEOUT_MS: Final = 60_000
"""For all requests while a pair is made: ten queues are created within seconds."""

SESSION_WAIT_MS: Final = 10_000
"""How long a send waits for the backlog of its session before it is diverted, too."""

FAULT_GRACE_MS: Final = 5_000
"""How long the other client of a pair has to close after the first was closed (P14)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSettings:
    """The settings of one pair."""

    # Zero: an entity fails over at its first failure that counts (P6).
    failover_interval_ms: int = FAILOVER_INTERVAL_MS
    ping_primary_interval_ms: int = PING_PRIMARY_INTERVAL_MS
    attempt_timeout_ms: int = ATTEMPT_TIMEOUT_MS
    send_timeout_ms: int = SEND_TIMEOUT_MS
    busy_wait_ms: int = BUSY_WAIT_MS
    backlog_retry_ms: int = BACKLOG_RETRY_MS
    # A send to a suspect entity waits; otherwise its first failure is raised.
    wait_during_failover: bool = True
    # New sends of a session wait until its backlog is empty.
    keep_session_order: bool = False
    session_wait_ms: int = SESSION_WAIT_MS
    fault_grace_ms: int = FAULT_GRACE_MS
    pairing_timeout_ms: int = PAIRING_TIMEOUT_MS
    # Messages without a message id get one: other namespaces than twinbus find
    # duplicates by it.
    assign_message_ids: bool = True
    verdicts: Mapping[FailureKind, Verdict] = field(default_factory=lambda: VERDICTS)

    def verdict(self, kind: FailureKind) -> Verdict:
        return self.verdicts.get(kind, VERDICTS[kind])
