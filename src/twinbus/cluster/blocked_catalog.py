"""A broker that was stopped while it wrote to the catalog, and how it is removed.

Then no broker can announce itself, so beats say nothing, and nobody is replaced. In a
SQLite catalog the system knows who holds the lock. If that is a broker, and nothing
could be written for a term, it is ended.
"""

import logging
from collections.abc import Iterable
from typing import final

from twinbus.cluster.announcement import announcement_of
from twinbus.cluster.terms import TERM_MS
from twinbus.store.catalog import BrokerRecord, Catalog
from twinbus.store.process_identity import end_process
from twinbus.store.sqlite_catalog import SqliteCatalog
from twinbus.store.sqlite_writer import writer_of

_log = logging.getLogger(__name__)


@final
class BlockedCatalog:
    """Watches whether announcements can be written."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog: Catalog = catalog
        # Who holds the lock, and since when; None: nobody whom we saw.
        self._writer: int | None = None
        self._seen_at: int = 0

    def is_free(self) -> None:
        """An announcement was written."""
        self._writer = None

    def is_blocked(self, brokers: Iterable[BrokerRecord], at: int) -> None:
        """An announcement was refused. Ends the process that holds the lock, if it is
        a broker and the same as a term ago."""
        if not isinstance(self._catalog, SqliteCatalog):
            return
        writer = writer_of(self._catalog.path)
        if writer is None or writer != self._writer:
            self._writer, self._seen_at = writer, at
            return
        if at - self._seen_at < TERM_MS:
            return
        self._seen_at = at
        for broker in filter(None, map(announcement_of, brokers)):
            if broker.process.pid == writer and end_process(broker.process):
                _log.warning(
                    "broker %s kept all others from writing to the catalog: its "
                    "process %d was killed",
                    *(broker.name, writer),
                )
                return
        _log.error(
            "process %d keeps all brokers from writing to the catalog %s: end it",
            *(writer, self._catalog.location),
        )
