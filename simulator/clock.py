"""The clock of a simulated machine: it follows the loop, except when it jumps."""

from typing import Final, final

from simulator.loop import VirtualLoop

_START: Final = 1_800_000_000_000


@final
class SimulatedClock:
    """Wall clock and monotonic clock over a virtual loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._offset_ms = _START

    def now(self) -> int:
        return self._offset_ms + self.monotonic()

    def monotonic(self) -> int:
        return round(self._loop.time() * 1000)

    def jump(self, by_ms: int) -> None:
        """The wall clock is set; the monotonic clock does not change."""
        self._offset_ms += by_ms
