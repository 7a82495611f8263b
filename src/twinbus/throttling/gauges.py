"""Measures the process and its disks, as Linux shows them.

Where a measure is not shown (another system, a container without limits), it is None
and its threshold has no effect.
"""

import os
from collections import deque
from pathlib import Path
from typing import Final

from twinbus.throttling.readings import ProcessReading

_MEMORY: Final = Path("/proc/self/statm")
_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_SPAN: Final = 5
"""Readings over which the CPU is averaged; with one per second, seconds."""


class ProcessGauge:
    """Measures this process."""

    def __init__(self) -> None:
        self._limit_bytes = memory_limit_bytes()
        # Of the last readings: when, and the CPU time until then, in milliseconds.
        self._cpu: deque[tuple[int, int]] = deque(maxlen=_SPAN + 1)

    def read(self, monotonic: int) -> ProcessReading:
        return ProcessReading(
            cpu_percent=self._cpu_percent(monotonic),
            memory_bytes=memory_bytes(),
            memory_limit_bytes=self._limit_bytes,
        )

    def _cpu_percent(self, monotonic: int) -> float | None:
        times = os.times()
        used_ms = round(1000 * (times.user + times.system))
        self._cpu.append((monotonic, used_ms))
        began_at, used_before_ms = self._cpu[0]
        if len(self._cpu) <= _SPAN or monotonic == began_at:
            return None
        return 100 * (used_ms - used_before_ms) / (monotonic - began_at)


def memory_bytes() -> int | None:
    """What the process holds in memory."""
    try:
        pages = int(_MEMORY.read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def memory_limit_bytes() -> int | None:
    """What the process may hold: the limit of its container, or all of the machine."""
    try:
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None
    for file in _LIMITS:
        try:
            return min(int(file.read_text()), machine)
        except (OSError, ValueError):
            continue  # there is no such file, or it says "max"
    return machine


def free_bytes(location: str) -> int | None:
    """Free space on the disk of a store, if it is a file here."""
    folder = Path(location).parent
    if not folder.is_absolute() and not Path(location).exists():
        return None
    try:
        disk = os.statvfs(folder)
    except OSError:
        return None
    return disk.f_bavail * disk.f_frsize
