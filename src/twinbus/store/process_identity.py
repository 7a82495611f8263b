"""Which process is this, and does that one still run?

A process id alone names nothing: ids are used again. On Linux the start time in
ticks since boot, together with the id of the boot, makes it unique; elsewhere a
process counts as running if its id does. A stopped process runs (it can go on at
any time); a zombie does not.

It says nothing about processes of other hosts or of other containers.
"""

import os
import socket
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_BOOT_ID = _PROC / "sys/kernel/random/boot_id"

# Fields of /proc/PID/stat, counted from the one after the command's name.
_STATE = 0
_START_TICKS = 19
_DEAD_STATES = ("Z", "X", "x")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """One run of one program."""

    pid: int
    # Empty where the system does not tell.
    start: str
    host: str


def this_process() -> ProcessIdentity:
    pid = os.getpid()
    return ProcessIdentity(
        pid=pid, start=_start_of(pid) or "", host=socket.gethostname()
    )


def is_running(process: ProcessIdentity) -> bool:
    """The process runs on this host, now."""
    if process.host != socket.gethostname():
        return False
    if _BOOT_ID.exists():
        return _start_of(process.pid) == process.start
    return _has_process(process.pid)


def _start_of(pid: int) -> str | None:
    """When a live process was started, as a text to compare; None if it is dead."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
        boot_id = _BOOT_ID.read_text().strip()
    except OSError:
        return None
    # The name is in parentheses and may itself contain some.
    fields = stat.rpartition(")")[2].split()
    if fields[_STATE] in _DEAD_STATES:
        return None
    return f"{boot_id}:{fields[_START_TICKS]}"


def _has_process(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
