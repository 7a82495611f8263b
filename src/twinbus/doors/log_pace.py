"""How often the log may speak of one thing: a flood of events is a line a second.

Whoever can make the bus write to its log for nothing fills a disk with it.
"""

from typing import Final

_INTERVAL_MS: Final = 1_000


class LogPace:
    """Lets one line through now and then, and counts what it stands for."""

    def __init__(self) -> None:
        self._next_at = 0
        self._count = 0

    def due(self, monotonic: int) -> int:
        """How many events a line is due for, this one included; 0: not yet."""
        self._count += 1
        if monotonic < self._next_at:
            return 0
        self._next_at = monotonic + _INTERVAL_MS
        count, self._count = self._count, 0
        return count
