"""The lease of a SQLite store: held by a process of this machine while it runs.

It has no term: others can see whether the holder's process runs, and an idle bus need
not write to its disk. To take the lease opens the file, and brings it to the current
format in the same transaction. To give it back closes the file.
"""

import sqlite3
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from typing import final

from twinbus.store import sqlite_lease_row
from twinbus.store.base import StoreError, StoreFull, StoreInUse
from twinbus.store.sqlite_confirmed import (
    Confirmation,
    ConfirmedFile,
    commits_lost,
    found_in,
    is_lost,
    read_confirmation,
    refuse_lost_store,
    refuse_lost_tail,
    schema_version,
)
from twinbus.store.sqlite_connection import SQL, SqliteConnection
from twinbus.store.sqlite_errors import Busy, reading, transaction
from twinbus.store.sqlite_file import (
    connect_to_read,
    migrate,
    open_file,
    settle_log,
)
from twinbus.store.sqlite_format import FORMAT


@final
class SqliteLease:
    """Of the store that is reached over one connection."""

    def __init__(self, connection: SqliteConnection) -> None:
        self._connection = connection
        # What this process owns through this object.
        self._tenure: sqlite_lease_row.Tenure | None = None

    @property
    def term_ms(self) -> int:
        return 0

    # --- take -----------------------------------------------------------------

    async def take(self, owner: str, now: int) -> int:
        apart = self._connection.apart
        if apart is None:
            return self._take_or_make_room(owner, now)
        return await apart.run(partial(self._take_or_make_room, owner, now))

    def _take_or_make_room(self, owner: str, now: int) -> int:
        path, room = self._connection.path, self._connection.room
        if self._connection.open_db is not None:
            raise StoreInUse(f"{path} is open already.")
        # Read before the store, because a live owner may commit in between.
        confirmed = read_confirmation(path)
        self.refuse_unopened(confirmed)
        room.begin()
        try:
            return self._take(owner, now, confirmed)
        except StoreFull:
            if not room.make(None):
                raise
        return self._take(owner, now, confirmed)

    def refuse_unopened(self, confirmed: Confirmation | None) -> None:
        """Raises CommitsLost, without the traces that opening would leave: SQLite
        clears away a log that it has read, with what is behind a damage in it."""
        path = self._connection.path
        if confirmed is None:
            return
        if not path.exists():
            refuse_lost_store(path, confirmed)
            return
        # A file that cannot be read at all is refused when it is opened.
        with suppress(sqlite3.Error), closing(connect_to_read(path)) as db:
            found = found_in(db)
            if found is not None and is_lost(confirmed, found):
                raise commits_lost(path, confirmed, found)

    def _take(self, owner: str, now: int, confirmed: Confirmation | None) -> int:
        path = self._connection.path
        db = open_file(path, FORMAT)
        try:
            epoch = self._take_row(db, owner, now, confirmed)
            # The epoch must not be lost with the log.
            settle_log(db, path)
            self._sync_apart(db)
            with reading(path):
                found = found_in(db)
            noted = None if found is None else ConfirmedFile(path, found)
            self._connection.begin(db, epoch, noted)
        except BaseException:
            self._connection.close(db)
            self._let_go()
            raise
        return epoch

    def _sync_apart(self, db: sqlite3.Connection) -> None:
        """From here on, if other stores are served beside this one."""
        path, apart = self._connection.path, self._connection.apart
        if apart is not None:
            try:
                apart.begin(db)
            except (OSError, sqlite3.Error) as error:
                raise StoreError(f"{path} could not be opened: {error}") from error

    def _write_log_again(self) -> None:
        """Inside the transaction. Raises StoreError."""
        path, apart = self._connection.path, self._connection.apart
        if apart is not None:
            try:
                apart.write_again()
            except OSError as error:
                apart.trouble = f"{path} could not be synced: {error}"
                raise StoreError(f"{apart.trouble}.") from error

    def _take_row(
        self,
        db: sqlite3.Connection,
        owner: str,
        now: int,
        confirmed: Confirmation | None,
    ) -> int:
        path = self._connection.path
        try:
            with transaction(db, path), reading(path):
                # A migration changes it.
                version = schema_version(db)
                migrate(db, path, FORMAT)
                found = found_in(db)
                self._tenure = sqlite_lease_row.take_lease(db, path, owner, now)
                self._write_log_again()
                if found is not None:
                    found = replace(found, schema_version=version)
                    refuse_lost_tail(path, confirmed, found)
                return self._tenure.epoch
        except Busy as error:
            raise sqlite_lease_row.in_use(db, path) from error

    # --- held -----------------------------------------------------------------

    async def renew(self, now: int) -> None:
        connection = self._connection
        _, epoch, _ = connection.rows("identity")[0]
        if epoch != connection.epoch:
            raise connection.lease_lost()

    async def give_back(self) -> None:
        apart = self._connection.apart
        if apart is None:
            self._give_back()
        else:
            await apart.close_store(self._give_back)

    def _give_back(self) -> None:
        connection = self._connection
        if connection.open_db is None:
            return
        # The space of the reserve helps to write this. If it fails all the same, the
        # lease is that of a dead process soon.
        connection.room.end()
        # After a sync that failed nothing may be added to the log.
        if connection.apart is None or not connection.apart.trouble:
            with suppress(sqlite3.Error):
                connection.open_db.execute(SQL["give_lease_back"], (connection.epoch,))
        self.abandon()

    def abandon(self) -> None:
        """Let go without giving it back, as the end of the process would."""
        self._connection.end()
        self._let_go()

    def _let_go(self) -> None:
        if self._tenure is not None:
            sqlite_lease_row.forget(self._tenure)
            self._tenure = None
