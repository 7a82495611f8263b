"""What a process tree costs, read from /proc, and how it is ended.

A server may be several processes (RabbitMQ is a shell, a virtual machine and
helpers), so CPU and memory are always those of a process and all of its
descendants. CPU of descendants that already ended is counted through their
parents. Processes are ended by their id and only if this program started them.
"""

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

STOP_PATIENCE_SECONDS = 30.0
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """The cost of a process tree up to now."""

    cpu_seconds: float
    resident_bytes: int
    # Without pages of files (a database's pages belong to the system's cache).
    anonymous_bytes: int
    peak_bytes: int


def usage_of_tree(root: int) -> Usage:
    """The usage of a process and its descendants; the root must be alive."""
    return usage_of(tree(root))


def usage_of(pids: Sequence[int]) -> Usage:
    """The usage of some processes."""
    cpu, resident, anonymous, peak = 0.0, 0, 0, 0
    for pid in pids:
        try:
            cpu += _cpu_seconds(pid)
            status = _status_bytes(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue  # a helper that ended between the listing and the reading
        resident += status.get("VmRSS", 0)
        anonymous += status.get("RssAnon", 0)
        peak += status.get("VmHWM", 0)
    return Usage(cpu, resident, anonymous, peak)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process we started: politely, and by force if it does not listen."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            for pid in reversed(tree(process.pid)):
                os.kill(pid, signal.SIGKILL)
    process.wait()


def tree(root: int) -> list[int]:
    """A process and its descendants, parents first."""
    found = [root]
    for pid in found:
        found += _children(pid)
    return found


def _children(pid: int) -> list[int]:
    """None of a process, or of a thread, that has ended meanwhile."""
    found: list[int] = []
    with suppress(FileNotFoundError):
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            with suppress(FileNotFoundError, ProcessLookupError):
                found += [int(child) for child in children.read_text().split()]
    return found


def _cpu_seconds(pid: int) -> float:
    # Fields 14 to 17: user and system ticks, own and of children waited for. The
    # name in field 2 may hold spaces, so counting starts behind its parenthesis.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(ticks) for ticks in fields[11:15]) / _TICKS_PER_SECOND


def _status_bytes(pid: int) -> dict[str, int]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    pairs = (line.split(":", 1) for line in lines if line.endswith(" kB"))
    return {name: int(value.split()[0]) * 1024 for name, value in pairs}
