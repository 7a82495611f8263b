"""The last owner of a store that has no owner alive, and how it is removed.

The lease of a SQLite store names a process, and can be taken when that has ended. One
that runs, though its broker was not heard of for a term, is frozen: it is killed first.
A process stopped within a write would lock the file for ever otherwise. What cannot be
seen from here is not killed, and the store is not taken.
"""

import logging
from collections.abc import Iterable
from typing import final

from twinbus.cluster.announcement import Announcement
from twinbus.cluster.shared_store import SharedStore
from twinbus.store.process_identity import end_process, is_running

_log = logging.getLogger(__name__)


@final
class Predecessors:
    """Removes those that stand in the way of a takeover."""

    def __init__(self) -> None:
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
        if holder is None or not is_running(holder):
            return True
        if any(broker.process == holder for broker in alive):
            # It has taken the store, and will announce it.
            return False
        for broker in silent:
            if broker.process == holder:
                return self._is_ended(shared, broker)
        # A process that is no broker of this cluster; the lease will be refused.
        return True

    def _is_ended(self, shared: SharedStore, broker: Announcement) -> bool:
        pid = broker.process.pid
        if end_process(broker.process):
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
