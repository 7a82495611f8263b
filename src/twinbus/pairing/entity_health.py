"""When an entity of the primary is given up, and when it is used again.

Theory of operation. Every entity that is sent to has a health, shared by all senders
of a process and pair (P5). It is in one of four states, and all that can happen to it
is in one table:

- healthy: sends go to the primary;
- suspect: a send has failed and none has succeeded since. A timer runs, sends still go
  to the primary, and the end of the timer fails the entity over (P6);
- failed over: sends go to the backlog, and pings to the primary (P8, P11);
- recovering: a ping was accepted. Sends go to the primary as if it were healthy, until
  the first of them proves it.

This file decides and does nothing: it is told the time, in milliseconds of a clock that
never goes back, and does not know who sends, pings or waits. The diagram in
docs/concepts/pairing.md is drawn from the table.
"""

from enum import Enum
from typing import Final, final


class State(Enum):
    """What is thought of an entity."""

    HEALTHY = "healthy"
    SUSPECT = "suspect"
    FAILED_OVER = "failed over"
    RECOVERING = "recovering"


class Happening(Enum):
    """What can happen to it."""

    SEND_SUCCEEDED = "send succeeded"
    SEND_FAILED = "send failed"
    INTERVAL_ENDED = "failover interval ended"
    PING_SUCCEEDED = "ping succeeded"
    PING_FAILED = "ping failed"


_S, _H = State, Happening

TRANSITIONS: Final[dict[State, dict[Happening, State]]] = {
    _S.HEALTHY: {
        _H.SEND_SUCCEEDED: _S.HEALTHY,
        _H.SEND_FAILED: _S.SUSPECT,
    },
    _S.SUSPECT: {
        _H.SEND_SUCCEEDED: _S.HEALTHY,
        _H.SEND_FAILED: _S.SUSPECT,
        _H.INTERVAL_ENDED: _S.FAILED_OVER,
    },
    _S.FAILED_OVER: {
        # Attempts that began before, and ended now, change nothing: pings decide.
        _H.SEND_SUCCEEDED: _S.FAILED_OVER,
        _H.SEND_FAILED: _S.FAILED_OVER,
        _H.PING_FAILED: _S.FAILED_OVER,
        _H.PING_SUCCEEDED: _S.RECOVERING,
    },
    _S.RECOVERING: {
        _H.SEND_SUCCEEDED: _S.HEALTHY,
        _H.SEND_FAILED: _S.SUSPECT,
    },
}
"""The next state, by state and event. Any other event in a state is a bug."""


@final
class EntityHealth:
    """One entity of the primary, as this process sees it."""

    def __init__(self, failover_interval_ms: int) -> None:
        self._failover_interval_ms = failover_interval_ms
        self.state = State.HEALTHY
        # While suspect: when it fails over.
        self.fails_over_at = 0
        # Since when it is in its state, and the text of the last failure.
        self.since = 0
        self.last_failure = ""
        self.failover_count = 0

    def send_succeeded(self, now: int) -> None:
        self._happened(Happening.SEND_SUCCEEDED, now)

    def send_failed(self, why: str, now: int) -> None:
        """An attempt failed in a way that counts (P7)."""
        self.last_failure = why
        was_suspect = self.state is State.SUSPECT
        self._happened(Happening.SEND_FAILED, now)
        if self.state is State.SUSPECT and not was_suspect:
            self.fails_over_at = now + self._failover_interval_ms
        self.let_time_pass(now)

    def let_time_pass(self, now: int) -> None:
        if self.state is State.SUSPECT and now >= self.fails_over_at:
            self._happened(Happening.INTERVAL_ENDED, now)
            self.failover_count += 1

    def ping_succeeded(self, now: int) -> None:
        self._happened(Happening.PING_SUCCEEDED, now)

    def ping_failed(self, now: int) -> None:
        self._happened(Happening.PING_FAILED, now)

    def is_diverted(self, now: int) -> bool:
        """Sends go to the backlog."""
        self.let_time_pass(now)
        return self.state is State.FAILED_OVER

    def _happened(self, happening: Happening, now: int) -> None:
        state = TRANSITIONS[self.state][happening]
        if state is not self.state:
            self.state, self.since = state, now
