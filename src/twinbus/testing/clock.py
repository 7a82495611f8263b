"""A clock that only moves when told to."""

from typing import final

from twinbus.clock import SystemClock


@final
class ManualClock:
    """Starts at the machine's time; only `advance` and `jump` move it."""

    def __init__(self, now: int | None = None) -> None:
        self._now = SystemClock().now() if now is None else now
        self._monotonic = 0

    def now(self) -> int:
        return self._now

    def monotonic(self) -> int:
        return self._monotonic

    def advance(self, milliseconds: int) -> None:
        """Let this time pass."""
        self._now += milliseconds
        self._monotonic += milliseconds

    def jump(self, milliseconds: int) -> None:
        """Change the wall-clock time, forwards or back; no time passes."""
        self._now += milliseconds
