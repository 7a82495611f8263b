"""Credits for operations: so many per second, and a number that may be saved up.

Operations are counted when they are committed, many at a time. So the credits may fall
below zero: what is owed is paid off before anything more is taken.
"""

from typing import final


@final
class Credits:
    """Of one namespace."""

    def __init__(self, per_second: int, burst: int, monotonic: int) -> None:
        self._per_second = per_second
        self._burst = burst
        # Thousandths of an operation.
        self._left = burst * 1000
        self._topped_up_at = monotonic

    def top_up(self, monotonic: int) -> None:
        """Time has passed."""
        passed_ms = monotonic - self._topped_up_at
        self._topped_up_at = monotonic
        self._left = min(self._left + passed_ms * self._per_second, self._burst * 1000)

    def spend(self, count: int) -> None:
        self._left -= count * 1000

    @property
    def owed(self) -> int:
        """Operations that were done without a credit."""
        return max(-self._left // 1000, 0)

    @property
    def is_used_up(self) -> bool:
        return self._left <= 0
