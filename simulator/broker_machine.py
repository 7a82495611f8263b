"""The processes of simulated machines, as each of them sees the others.

A process sees those with the same process ids: of the same machine, and of the same
container. Ids are used in each container anew, as those of real ones are.
"""

from dataclasses import dataclass
from typing import final

from simulator.process_loop import SimulatedProcess
from twinbus.store.process_identity import ProcessIdentity, can_see


@dataclass(frozen=True, slots=True, kw_only=True)
class Dwelling:
    """Where a process runs."""

    host: str
    boot_id: str
    # Its container.
    pid_namespace: str


class System:
    """All processes, by what their ids mean."""

    def __init__(self) -> None:
        self._processes: dict[tuple[Dwelling, int], SimulatedProcess] = {}
        self._started_count = 0

    def new_identity(self, dwelling: Dwelling) -> ProcessIdentity:
        """Of a process that is started there now."""
        self._started_count += 1
        before = sum(where == dwelling for where, _ in self._processes)
        return ProcessIdentity(
            pid=before + 1,
            start=f"{dwelling.boot_id}:{self._started_count}",
            host=dwelling.host,
            pid_namespace=dwelling.pid_namespace,
        )

    def add(self, process: SimulatedProcess, dwelling: Dwelling) -> None:
        self._processes[dwelling, process.identity.pid] = process

    def find(self, dwelling: Dwelling, pid: int) -> SimulatedProcess | None:
        """The process that has this id there, if it runs or is stopped."""
        found = self._processes.get((dwelling, pid))
        return None if found is None or found.has_ended else found


@final
class VisibleProcesses:
    """What the system tells one process; compare `SystemProcesses`."""

    def __init__(
        self, system: System, process: SimulatedProcess, dwelling: Dwelling
    ) -> None:
        self._system = system
        self._process = process
        self._dwelling = dwelling

    def this(self) -> ProcessIdentity:
        return self._process.identity

    def is_running(self, process: ProcessIdentity) -> bool:
        return self._found(process) is not None

    def is_visible(self, process: ProcessIdentity) -> bool:
        return can_see(self._process.identity, process)

    def end(self, process: ProcessIdentity) -> bool:
        if not self.is_visible(process) or process.pid == self._process.identity.pid:
            return False
        found = self._found(process)
        if found is not None:
            found.end()
        return True

    def _found(self, process: ProcessIdentity) -> SimulatedProcess | None:
        """Exactly that one, and not another with its id."""
        if process.host != self._dwelling.host:
            return None
        found = self._system.find(self._dwelling, process.pid)
        is_it = found is not None and found.identity.start == process.start
        return found if is_it else None
