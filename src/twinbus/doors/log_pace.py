"""Limits how often one kind of event is logged: at most one line a second.

Otherwise a client that can cause log lines could fill a disk.
"""

from typing import Final

_INTERVAL_MS: Final = 1_000


class LogPace:
    """Lets one line through per interval, and counts the events it stands for."""

    def __init__(self) -> None:
        self._next_at = 0
        self._count = 0

    def due(self, monotonic: int) -> int:
        """The number of events for which a line is due, with this one; 0: not yet."""
        self._count += 1
        if monotonic < self._next_at:
            return 0
        self._next_at = monotonic + _INTERVAL_MS
        count, self._count = self._count, 0
        return count
