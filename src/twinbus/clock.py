"""The clock interface, and the system's clock.

Times are whole milliseconds since the Unix epoch; durations are whole milliseconds.
Only this file imports `time`: the pure packages get `now` as a parameter, and the
others have a `Clock`, which a test or the simulator can replace.

Timers are not here: the broker knows what is due, and the server waits for it.
"""

import time
from typing import Protocol, final

_NANOSECONDS_PER_MILLISECOND = 1_000_000


class Clock(Protocol):
    """The source of time for code that is not pure."""

    def now(self) -> int:
        """Milliseconds since the Unix epoch; it may jump."""
        ...

    def monotonic(self) -> int:
        """Milliseconds from an arbitrary start; it never goes back."""
        ...


@final
class SystemClock:
    """The machine's clocks."""

    def now(self) -> int:
        return time.time_ns() // _NANOSECONDS_PER_MILLISECOND

    def monotonic(self) -> int:
        return time.monotonic_ns() // _NANOSECONDS_PER_MILLISECOND
