"""The embedded store: one SQLite file, written by one process, on this machine.

It answers on the event loop without suspending: handing commits to a thread makes
them wait for the interpreter, which costs more than the disk (decision 0002). Beside
other stores only its syncs are handed to one (`sqlite_apart.py`). A commit is one
transaction whose first statement is the fence: the update of the lease row finds no
row of our epoch when somebody else has become the owner.

This file commits. `sqlite_changes.py` knows what a commit writes, `sqlite_purge.py`
what a purge removes, `sqlite_lease.py` who may write, `sqlite_reads.py` what is read
and `sqlite_errors.py` what SQLite's errors mean. Every statement is in
`sql/sqlite_store.sql`.
"""

import sqlite3
from pathlib import Path
from typing import Final, final

from twinbus.broker.changes import ChangeSet
from twinbus.store import sqlite_lease_row
from twinbus.store.base import (
    TRIMMED_IDS,
    CommitFailed,
    Opened,
    StoreFull,
    StoreInUse,
)
from twinbus.store.export_position import exported_through, may_trim
from twinbus.store.sqlite_apart import ApartLog
from twinbus.store.sqlite_changes import write_changes
from twinbus.store.sqlite_confirmed import read_confirmation
from twinbus.store.sqlite_connection import SQL, SqliteConnection
from twinbus.store.sqlite_errors import Busy, rolled_back
from twinbus.store.sqlite_file import migrate, open_file
from twinbus.store.sqlite_format import FORMAT
from twinbus.store.sqlite_lease import SqliteLease
from twinbus.store.sqlite_purge import purge_portion
from twinbus.store.sqlite_reads import SqliteReads
from twinbus.store.survey import Survey

__all__ = ["FORMAT", "SqliteStore"]

_FEW_MESSAGES: Final = 4
"""In a small commit."""


@final
class SqliteStore(SqliteReads):
    """A store in a file, which is made when it is first opened."""

    def __init__(self, path: Path | str, apart: ApartLog | None = None) -> None:
        """`apart` syncs it in a thread, for a process with several stores."""
        super().__init__(SqliteConnection(Path(path), apart))
        self.lease: SqliteLease = SqliteLease(self._file)

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def location(self) -> str:
        return str(self.path)

    @property
    def _db(self) -> sqlite3.Connection:
        return self._file.db

    # --- ownership ------------------------------------------------------------

    async def load(self) -> Opened:
        file = self._file
        store_uuid, epoch, batch = file.rows("identity")[0]
        return Opened(
            store_uuid=store_uuid,
            epoch=epoch,
            last_batch=batch,
            fragments=self.fragment_records(),
            purging=[number for (number,) in file.rows("dropped_fragments")],
            next_scheduled_at=file.rows("next_scheduled_at")[0][0],
        )

    async def survey(self) -> Survey:
        """What is in the file, which stays as it is, in its format and without an
        owner. Raises as `StoreLease.take` does."""
        file = self._file
        if file.open_db is not None:
            raise StoreInUse(f"{self.path} is open already.")
        self.lease.refuse_unopened(read_confirmation(self.path))
        file.open_db = db = open_file(self.path, FORMAT)
        try:
            with rolled_back(db, self.path):
                migrate(db, self.path, FORMAT, keeps_copy=False)
                sqlite_lease_row.refuse_if_owned(db, self.path)
                return Survey(
                    store_uuid=file.rows("identity")[0][0],
                    fragments=self.fragment_records(),
                    entities=self.stored_entities(),
                )
        except Busy as error:
            raise sqlite_lease_row.in_use(db, self.path) from error
        finally:
            file.end()

    async def close(self) -> None:
        await self.lease.give_back()

    def abandon(self) -> None:
        """Let go without giving the lease back, as the end of the process would."""
        self.lease.abandon()

    # --- writing --------------------------------------------------------------

    async def commit(self, changes: ChangeSet) -> None:
        file = self._file
        await file.ready()
        try:
            self._commit(changes)
        except StoreFull:
            # Others have filled the disk: that must not keep clients from settling.
            if not await file.lend(file.room.make):
                raise
            self._commit(changes)
        file.room.added(changes.pending_bytes)
        # Of large ones the loop collects the next one meanwhile.
        messages = len(changes.active_added) + len(changes.active_removed)
        await file.durable(is_small=messages <= _FEW_MESSAGES)
        if file.confirmed is not None:
            file.confirmed.note(changes.batch)

    def _commit(self, changes: ChangeSet) -> None:
        with self._file.transaction():
            self._fence_commit(changes)
            write_changes(self._file.db, changes)

    def _fence_commit(self, changes: ChangeSet) -> None:
        names = {"epoch": changes.epoch, "batch": changes.batch}
        if self._file.db.execute(SQL["fence_commit"], names).rowcount == 1:
            return
        _, epoch, batch = self._file.rows("identity")[0]
        if epoch != changes.epoch:
            raise self._file.lease_lost()
        raise CommitFailed(
            f"{self.path}: commit {changes.batch} does not follow {batch}."
        )

    async def room(self) -> int:
        file = self._file
        # A look may copy the log.
        if file.apart is not None and file.room.must_look():
            return await file.lend(file.room.left)
        return file.room.left(file.db)

    async def purge(self, fragment_number: int, limit: int) -> bool:
        file = self._file
        await file.ready()
        try:
            is_purged = self._purge(fragment_number, limit)
        except StoreFull:
            if not await file.lend(file.room.make):
                raise
            is_purged = self._purge(fragment_number, limit)
        await file.durable()
        return is_purged

    def _purge(self, fragment_number: int, limit: int) -> bool:
        with self._file.transaction():
            self._file.fence()
            return purge_portion(self._file.db, fragment_number, limit)

    async def trim(
        self, *, operations_through: int, now: int, limit: int = TRIMMED_IDS
    ) -> bool:
        file = self._file
        through = may_trim(operations_through, exported_through(self.path))
        await file.ready()
        with file.transaction():
            file.fence()
            file.db.execute(SQL["trim_operations"], (through,))
            trimmed = file.db.execute(SQL["trim_ledger_ids"], (now, limit))
        await file.durable()
        return trimmed.rowcount < limit

    async def last_batch(self) -> int:
        file = self._file
        if file.in_doubt:
            # A commit whose sync failed is in the WAL, unseen by this connection;
            # a crash now would bring it to life. The next transaction takes its
            # place in the WAL, and only then is what we see what will be.
            with file.transaction():
                file.fence()
            await file.durable()
        batch: int = file.rows("last_batch")[0][0]
        if file.confirmed is not None:
            file.confirmed.note(batch)
        return batch
