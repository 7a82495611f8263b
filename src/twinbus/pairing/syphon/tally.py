"""What a syphon has done, counted: for summaries, metrics and P13's arithmetic."""

from collections import deque
from dataclasses import dataclass
from typing import Final, final

_RATE_MS: Final = 10_000
"""The rate is that of the last ten seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyphonStatus:
    """A syphon at one moment."""

    # Whether it has an engine and, if it needs one, the lease.
    is_running: bool
    # Why it does not run, or what it cannot do, as texts.
    trouble: tuple[str, ...]
    # Which engine it runs on; empty before one is chosen.
    engine: str
    queues: tuple[str, ...]
    # Requests for messages, those that found nothing included (P13).
    receives: int
    received: int
    restored: int
    # Times that a message was deferred.
    parked: int
    poison: int
    # Restored messages a second.
    rate: float
    # Entities that do not take messages now.
    parked_entities: tuple[str, ...]
    is_primary_reachable: bool


@final
class Tally:
    """The counters of a syphon."""

    def __init__(self) -> None:
        self.receives = 0
        self.received = 0
        self.restored = 0
        self.parked = 0
        self.poison = 0
        # The restores of the last seconds: when, and how many.
        self._recent: deque[tuple[int, int]] = deque()
        self._recent_count = 0

    def count_restored(self, count: int, now: int) -> None:
        self.restored += count
        self._recent.append((now, count))
        self._recent_count += count
        self._forget(now)

    def rate(self, now: int) -> float:
        self._forget(now)
        if not self._recent:
            return 0.0
        # At the begin of a drain, leave out the idle time before it.
        span_ms = max(now - self._recent[0][0], 1_000)
        return self._recent_count * 1000 / span_ms

    def while_waiting(self, trouble: tuple[str, ...]) -> SyphonStatus:
        """The status of a syphon that does not run now, with what it did before."""
        return SyphonStatus(
            is_running=False,
            trouble=trouble,
            engine="",
            queues=(),
            receives=self.receives,
            received=self.received,
            restored=self.restored,
            parked=self.parked,
            poison=self.poison,
            rate=0.0,
            parked_entities=(),
            is_primary_reachable=False,
        )

    def _forget(self, now: int) -> None:
        while self._recent and self._recent[0][0] <= now - _RATE_MS:
            self._recent_count -= self._recent.popleft()[1]
