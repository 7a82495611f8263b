"""How long a namespace that does not answer is waited for, and in which steps.

A stream must not end because a bus restarts or is busy for a while (A2): what may
succeed later is tried again until the time is up. Spark itself tries nothing again that
fails in the driver.
"""

import random
import threading
from collections.abc import Callable
from typing import Final

from twinbus.clock import Clock, SystemClock

_FIRST_SECONDS: Final = 0.2
_LONGEST_SECONDS: Final = 10.0

BUSY_SECONDS: Final = 10.0
"""What Service Bus asks callers to wait after it said it is busy."""


class RetryPatience:
    """The time that is left for one call and its repetitions."""

    def __init__(
        self,
        seconds: float,
        *,
        clock: Clock | None = None,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._sleep = sleep or threading.Event().wait
        self._ends_at = self._clock.monotonic() + round(seconds * 1000)
        self._step = _FIRST_SECONDS

    def wait(self, at_least: float = 0.0) -> bool:
        """Wait before the next attempt; False if the time is up."""
        left = (self._ends_at - self._clock.monotonic()) / 1000
        if left <= 0:
            return False
        # Executors that failed together must not come back together.
        step = max(self._step * random.uniform(0.5, 1.0), at_least)
        self._step = min(self._step * 2, _LONGEST_SECONDS)
        self._sleep(min(step, left))
        return True
