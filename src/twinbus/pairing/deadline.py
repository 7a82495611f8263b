"""How much of a call's time is left, by a clock that never goes back."""

from typing import final

from twinbus.clock import Clock


@final
class Deadline:
    """The end of one call."""

    def __init__(self, clock: Clock, timeout_ms: int) -> None:
        self._clock = clock
        self._ends_at = clock.monotonic() + timeout_ms

    def left_ms(self) -> int:
        return max(self._ends_at - self._clock.monotonic(), 0)

    def is_over(self) -> bool:
        return self.left_ms() == 0
