"""The connection to a store's file while its lease is held, and what comes with it.

Lease, reads and writes of a store share one. It runs statements by their name in
`sql/sqlite_store.sql`, and knows whether the outcome of the last commit is in doubt.
"""

import logging
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar, final

from twinbus.broker.changes import OutboxEntry
from twinbus.broker.fragment_settings import NO_LIMIT
from twinbus.broker.message import Message
from twinbus.store.base import CommitUnknown, LeaseLost, StoreError
from twinbus.store.rows.sqlite_rows import BodyMissing, messages_of
from twinbus.store.sqlite_apart import ApartLog
from twinbus.store.sqlite_confirmed import ConfirmedFile
from twinbus.store.sqlite_errors import reading, transaction, unreadable
from twinbus.store.sqlite_room import Room
from twinbus.store.statements import named_statements

_log = logging.getLogger(__name__)

T = TypeVar("T")

SQL: Final = named_statements("sqlite_store.sql")


@final
class SqliteConnection:
    """To one file, for one owner."""

    def __init__(self, path: Path, apart: ApartLog | None = None) -> None:
        self.path: Path = path
        # Syncs the log, beside other stores; None: SQLite does, on the loop.
        self.apart: ApartLog | None = apart
        # Set while the lease is held.
        self.open_db: sqlite3.Connection | None = None
        # The epoch in which the lease is held, or was held last.
        self.epoch: int = 0
        # A commit's outcome is unknown until a later transaction has settled it.
        self.in_doubt: bool = False
        # The file beside the store that has the number of the last commit.
        self.confirmed: ConfirmedFile | None = None
        self.room: Room = Room(path, None if apart is None else apart.copy)

    @property
    def db(self) -> sqlite3.Connection:
        """Raises StoreError if the store is not open."""
        if self.open_db is None:
            raise StoreError(f"{self.path} is not open.")
        return self.open_db

    def begin(
        self, db: sqlite3.Connection, epoch: int, confirmed: ConfirmedFile | None
    ) -> None:
        """The lease was taken over this connection."""
        self.open_db = db
        self.epoch = epoch
        self.confirmed = confirmed

    def end(self) -> None:
        """The lease is not held any more."""
        if self.open_db is not None:
            db, self.open_db = self.open_db, None
            self.close(db)
        self.in_doubt = False
        if self.confirmed is not None:
            self.confirmed.close()
            self.confirmed = None

    def close(self, db: sqlite3.Connection) -> None:
        """Close a connection to the file."""
        if self.apart is None:
            db.close()
        else:
            self.apart.close(db)

    # --- reading --------------------------------------------------------------

    def rows(
        self, name: str, parameters: Sequence[Any] | Mapping[str, Any] = ()
    ) -> list[Any]:
        with reading(self.path):
            return self.db.execute(SQL[name], parameters).fetchall()

    def messages(
        self,
        name: str,
        parameters: Sequence[Any] | Mapping[str, Any],
        limit_bytes: int = NO_LIMIT,
    ) -> list[Message]:
        # Closed at once: a statement that is not at its end keeps the WAL from
        # being emptied.
        with (
            reading(self.path),
            closing(self.db.execute(SQL[name], parameters)) as rows,
        ):
            try:
                return messages_of(rows, limit_bytes)
            except BodyMissing as error:
                raise unreadable(self.path, str(error)) from error

    def outbox_entries(
        self, parameters: Mapping[str, Any], limit_bytes: int
    ) -> list[OutboxEntry]:
        """Entries, and no more once they have `limit_bytes`."""
        entries: list[OutboxEntry] = []
        size_bytes = 0
        with (
            reading(self.path),
            closing(self.db.execute(SQL["outbox"], parameters)) as rows,
        ):
            for entry_id, target, raw, origin in rows:
                entries.append(
                    OutboxEntry(
                        entry_id=entry_id, target=target, raw=raw, origin=origin
                    )
                )
                size_bytes += len(raw)
                if size_bytes >= limit_bytes:
                    break
        return entries

    # --- writing --------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Raises StoreFull, CommitFailed, CommitUnknown."""
        try:
            with transaction(self.db, self.path):
                yield
        except CommitUnknown:
            self.in_doubt = True
            raise
        self.in_doubt = False

    async def ready(self) -> None:
        """Before a write: the log has room for it. Raises StoreError."""
        if self.apart is not None:
            await self.apart.settled()
            if self.apart.is_long:
                await self.lend(self._copy_log)

    def _copy_log(self, db: sqlite3.Connection) -> None:
        assert self.apart is not None
        try:
            self.apart.copy(db)
        except sqlite3.Error as error:
            # As where SQLite does it: the log grows, and the next write tries again.
            _log.info("%s: its log was not copied: %s", self.path, error)

    async def durable(self, *, is_small: bool = False) -> None:
        """After a write. Raises StoreError if it may not be on disk."""
        if self.apart is not None:
            await self.apart.durable(is_small=is_small)

    async def settled(self) -> None:
        """Before a read that runs beside a write: it must not see what may be lost.
        Raises StoreError."""
        if self.apart is not None:
            await self.apart.settled()

    async def lend(self, use: Callable[[sqlite3.Connection], T]) -> T:
        """Use the connection where a sync may take long. Raises StoreError."""
        if self.apart is None:
            return use(self.db)
        return await self.apart.run_for_a_while(partial(use, self.db))

    def fence(self) -> None:
        """Inside a transaction: raises LeaseLost if another has taken the store."""
        if self.db.execute(SQL["fence"], (self.epoch,)).rowcount != 1:
            raise self.lease_lost()

    def lease_lost(self) -> LeaseLost:
        return LeaseLost(f"{self.path} has been taken over by another process.")
