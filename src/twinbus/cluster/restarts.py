"""When a broker that has ended is started again: after longer and longer pauses, which
begin anew when it has run for a while."""

from typing import Final, final

FIRST_PAUSE_MS: Final = 200
LONGEST_PAUSE_MS: Final = 10_000

STEADY_MS: Final = 30_000
"""A broker that has run for so long had no trouble with its start."""


@final
class Restarts:
    """Of one broker."""

    def __init__(self) -> None:
        self._pause_ms: int = 0
        self._started_at: int = 0

    def started(self, at: int) -> None:
        """By the monotonic clock."""
        self._started_at = at

    def ended(self, at: int) -> int:
        """How long to wait before the next start, in milliseconds."""
        if at - self._started_at >= STEADY_MS:
            self._pause_ms = 0
        self._pause_ms = min(max(2 * self._pause_ms, FIRST_PAUSE_MS), LONGEST_PAUSE_MS)
        return self._pause_ms
