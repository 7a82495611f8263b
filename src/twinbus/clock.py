"""The time, as the rest of the bus is told it.

Instants are whole milliseconds since the Unix epoch; durations are whole
milliseconds. This is the only file that imports `time`: the pure packages are
given `now` as a parameter, and the shells hold a `Clock`, so that a test or the
simulator can put another one in its place.

It does not know about timers: what is due is the broker's question, and who
waits for it is the server's.
"""

import time
from typing import Protocol, final

_NANOSECONDS_PER_MILLISECOND = 1_000_000


class Clock(Protocol):
    """Where a shell gets the time from."""

    def now(self) -> int:
        """The instant, in milliseconds since the Unix epoch; it may jump."""
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
