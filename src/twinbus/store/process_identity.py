"""Which process is this, and does that one still run?

A process id alone names nothing: ids are used again. On Linux the start time in
ticks since boot, together with the id of the boot, makes it unique; elsewhere a
process counts as running if its id does. A stopped process runs (it can go on at
any time); a zombie does not.

It says nothing about processes of other hosts or of other containers.
"""

import os
import select
import signal
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, final

_PROC = Path("/proc")
_BOOT_ID = _PROC / "sys/kernel/random/boot_id"

# Fields of /proc/PID/stat, counted from the one after the command's name.
_STATE = 0
_START_TICKS = 19
_DEAD_STATES = ("Z", "X", "x")

_END_MS: Final = 1_000
"""A killed process ends at once, unless it waits for a disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """One run of one program."""

    pid: int
    # Boot id and ticks; empty where the system does not tell.
    start: str
    host: str
    # In which process ids mean the same; empty where that is not known.
    pid_namespace: str = field(default="", compare=False)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Processes(Protocol):
    """The processes of this machine, as one of them sees them."""

    def this(self) -> ProcessIdentity: ...

    def is_running(self, process: ProcessIdentity) -> bool: ...

    def is_visible(self, process: ProcessIdentity) -> bool: ...

    def end(self, process: ProcessIdentity) -> bool: ...


@final
class SystemProcesses:
    """Those that the system knows."""

    def this(self) -> ProcessIdentity:
        return this_process()

    def is_running(self, process: ProcessIdentity) -> bool:
        return is_running(process)

    def is_visible(self, process: ProcessIdentity) -> bool:
        return is_visible(process)

    def end(self, process: ProcessIdentity) -> bool:
        return end_process(process)


def process_of_json(found: Mapping[str, Any]) -> ProcessIdentity:
    """Raises KeyError, TypeError, ValueError."""
    return ProcessIdentity(
        pid=int(found["pid"]),
        start=str(found["start"]),
        host=str(found["host"]),
        pid_namespace=str(found["pid_namespace"]),
    )


def this_process() -> ProcessIdentity:
    pid = os.getpid()
    return ProcessIdentity(
        pid=pid,
        start=_start_of(pid) or "",
        host=socket.gethostname(),
        pid_namespace=_own_pid_namespace(),
    )


def is_running(process: ProcessIdentity) -> bool:
    """The process runs on this host, now."""
    if process.host != socket.gethostname():
        return False
    if _BOOT_ID.exists():
        return _start_of(process.pid) == process.start
    return _has_process(process.pid)


def is_visible(process: ProcessIdentity) -> bool:
    """Whether it can be seen from here if it runs, and so ended."""
    return can_see(this_process(), process)


def can_see(here: ProcessIdentity, process: ProcessIdentity) -> bool:
    """Whether the one is told by the system if the other runs: its id means the same
    to both, since the machine was started."""
    return (
        process.host == here.host
        and is_of_same_boot(here, process)
        and process.pid_namespace == here.pid_namespace != ""
    )


def is_of_same_boot(one: ProcessIdentity, other: ProcessIdentity) -> bool:
    """Both were started on one machine since that was started, be it in different
    containers."""
    return one.start.partition(":")[0] == other.start.partition(":")[0] != ""


def end_process(process: ProcessIdentity) -> bool:
    """SIGKILL for exactly this process; False if that is not possible.

    The process id is looked at again after a handle of it was taken: from then on it
    cannot become the id of another process.
    """
    if not is_visible(process) or process.pid == os.getpid():
        return False
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return not is_running(process)
    try:
        if not is_running(process):
            return True
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        # The handle is readable when the process has ended.
        ended = select.poll()
        ended.register(handle, select.POLLIN)
        ended.poll(_END_MS)
    except PermissionError:
        return False
    finally:
        os.close(handle)
    return not is_running(process)


def _own_pid_namespace() -> str:
    try:
        return os.readlink(_PROC / "self/ns/pid")
    except OSError:
        return ""


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
