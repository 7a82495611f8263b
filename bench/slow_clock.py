"""`python -m bench.slow_clock`: twinbus, with a clock as slow as valgrind makes it.

A server that callgrind watches takes fifty times as long for everything. By the usual
clock its turns would end after 64 messages and not after a whole read, and every turn
ends with a commit: a cost that no other server has. So its clock goes slower as well.
It counts the CPU time of the process: then others who use the machine do not matter.
"""

import runpy
import time
from typing import Final

from twinbus.clock import SystemClock

_SLOWDOWN: Final = 50
"""CPU per message under callgrind, relative to that without: between 50 and 60."""

_NANOSECONDS_PER_MILLISECOND: Final = 1_000_000


def _slow_monotonic(clock: SystemClock) -> int:
    return time.process_time_ns() // (_SLOWDOWN * _NANOSECONDS_PER_MILLISECOND)


if __name__ == "__main__":
    setattr(SystemClock, "monotonic", _slow_monotonic)  # noqa: B010
    runpy.run_module("twinbus", run_name="__main__", alter_sys=True)
