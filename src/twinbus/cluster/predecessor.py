"""The last owner of a store that has no owner alive, and how it is removed.

The lease of a SQLite store names a process, and can be taken when that has ended. One
that runs, though its broker was not heard of for a term, is frozen: it is killed first.
A process stopped within a write would lock the file for ever otherwise. One of another
container cannot be seen from here: it is not killed, and its store is not taken while
it is announced.

The lease of a database names no process, and ends when its holder is not heard of for
a term. That need not be waited for if the last owner is known to have ended.
"""

import logging
from collections.abc import Iterable
from typing import final

from twinbus.cluster.announcement import Announcement
from twinbus.cluster.broker_directory import owners_of_stores
from twinbus.cluster.shared_store import SharedStore
from twinbus.store.process_identity import (
    Processes,
    ProcessIdentity,
    is_of_same_boot,
)

_log = logging.getLogger(__name__)


@final
class Predecessors:
    """Removes those that stand in the way of a takeover."""

    def __init__(self, processes: Processes) -> None:
        self._processes: Processes = processes
        # What the log says already, by store.
        self._told: dict[bytes, str] = {}

    def are_gone(
        self,
        shared: SharedStore,
        silent: Iterable[Announcement],
        alive: Iterable[Announcement],
    ) -> bool:
        """Nobody has the store any more, as far as can be told. The lease decides."""
        holder = shared.holder()
        if holder is None:
            self._tell_lease(shared, owners_of_stores(silent).get(shared.uuid))
            return True
        if not self._may_run(holder):
            return True
        if any(broker.process == holder for broker in alive):
            # It has taken the store, and will announce it.
            return False
        for broker in silent:
            if broker.process == holder:
                return self._is_ended(shared, broker)
        # A process that is no broker of this cluster; the lease will be refused.
        return True

    def _may_run(self, holder: ProcessIdentity) -> bool:
        """A file that a process of another boot had is in nobody's hands: the machine
        was started again, or the file is on another one now."""
        processes = self._processes
        if processes.is_running(holder):
            return True
        is_hidden = not processes.is_visible(holder)
        return is_hidden and is_of_same_boot(processes.this(), holder)

    def _tell_lease(self, shared: SharedStore, last: Announcement | None) -> None:
        """The lease names no process, but its term need not be waited for if the last
        owner has ended."""
        processes = self._processes
        if last is None or not processes.is_visible(last.process):
            return
        if not processes.is_running(last.process) or self._is_ended(shared, last):
            shared.predecessor_ended(last.stores[shared.uuid])

    def _is_ended(self, shared: SharedStore, broker: Announcement) -> bool:
        pid = broker.process.pid
        if self._processes.end(broker.process):
            _log.warning(
                "broker %s was not heard of for a term, and had the store %s: its "
                "process %d was killed",
                *(broker.name, shared.location, pid),
            )
            return True
        text = (
            f"broker {broker.name} was not heard of for a term and has the store "
            f"{shared.location}, but its process {pid} on {broker.process.host} cannot "
            "be ended from here. End it, and the store is taken."
        )
        if self._told.get(shared.uuid) != text:
            self._told[shared.uuid] = text
            _log.error("%s", text)
        return False
