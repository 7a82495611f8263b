"""The connection to a store's file while its lease is held, and what comes with it.

Lease, reads and writes of a store share one. It runs statements by their name in
`sql/sqlite_store.sql`, and knows whether the outcome of the last commit is in doubt.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, final

from twinbus.broker.fragment_settings import NO_LIMIT
from twinbus.broker.message import Message
from twinbus.store.base import CommitUnknown, LeaseLost, StoreError
from twinbus.store.rows.sqlite_rows import BodyMissing, messages_of
from twinbus.store.sqlite_confirmed import ConfirmedFile
from twinbus.store.sqlite_errors import reading, transaction, unreadable
from twinbus.store.sqlite_room import Room
from twinbus.store.statements import named_statements

SQL: Final = named_statements("sqlite_store.sql")


@final
class SqliteConnection:
    """To one file, for one owner."""

    def __init__(self, path: Path) -> None:
        self.path: Path = path
        # Set while the lease is held.
        self.open_db: sqlite3.Connection | None = None
        # The epoch in which the lease is held, or was held last.
        self.epoch: int = 0
        # A commit's outcome is unknown until a later transaction has settled it.
        self.in_doubt: bool = False
        # The file beside the store that has the number of the last commit.
        self.confirmed: ConfirmedFile | None = None
        self.room: Room = Room(path)

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
            self.open_db.close()
            self.open_db = None
        self.in_doubt = False
        if self.confirmed is not None:
            self.confirmed.close()
            self.confirmed = None

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

    def fence(self) -> None:
        """Inside a transaction: raises LeaseLost if another has taken the store."""
        if self.db.execute(SQL["fence"], (self.epoch,)).rowcount != 1:
            raise self.lease_lost()

    def lease_lost(self) -> LeaseLost:
        return LeaseLost(f"{self.path} has been taken over by another process.")
