"""A SQLite file as it is at one instant, while others write to it.

One connection holds the lock of writers for an instant; another has a read transaction
from that instant on, which SQLite's own copying then reads from. Until the copy is made
the log of the file grows, because what the snapshot needs stays in place.
"""

import asyncio
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from twinbus.backup.manifest import Progress
from twinbus.store.base import FormatTooNew, StoreError, StoreUnreadable
from twinbus.store.sqlite_errors import refusal
from twinbus.store.sqlite_file import (
    SqliteFormat,
    connect_to_read,
    connect_to_write,
)

_STEP_PAGES: Final = 2_048
"""Copied between two words of progress: 32 MB."""

_TRY_SECONDS: Final = 0.000_2
"""The lock of writers is free between two commits of a busy bus, and not for long:
SQLite itself would sleep longer than that."""


class SqliteSnapshot:
    """Of one file."""

    def __init__(self, path: Path, kind: SqliteFormat) -> None:
        self.path = path
        self._kind = kind
        self._holder: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None

    @property
    def location(self) -> str:
        return str(self.path)

    async def open(self) -> None:
        """Raises StoreError."""
        if not self.path.exists():
            raise StoreError(f"There is no {self._kind.noun} {self.path}.")
        with self._reading():
            self._holder = connect_to_write(self.path)
            self._holder.execute("PRAGMA busy_timeout = 0")
            self._reader = connect_to_read(self.path)
            self._recognise(self._reader)

    def _recognise(self, db: sqlite3.Connection) -> None:
        (found,) = db.execute("PRAGMA application_id").fetchone()
        if found != self._kind.application_id:
            raise StoreUnreadable(f"{self.path} is not a twinbus {self._kind.noun}.")
        (oldest,) = db.execute("SELECT min_reader_version FROM meta").fetchone()
        if oldest > self._kind.version:
            raise FormatTooNew(
                f"{self.path} needs a twinbus that knows format {oldest}; this one "
                f"knows formats up to {self._kind.version}. Use a newer twinbus."
            )

    async def hold(self, until: float) -> bool:
        """As `SnapshotSource.hold`."""
        assert self._holder is not None
        while True:
            try:
                self._holder.execute("BEGIN IMMEDIATE")
                return True
            except sqlite3.OperationalError as error:
                if (error.sqlite_errorcode & 0xFF) != sqlite3.SQLITE_BUSY:
                    raise refusal(self.path, error) from error
            if asyncio.get_running_loop().time() >= until:
                return False
            await asyncio.sleep(_TRY_SECONDS)

    async def look(self) -> None:
        """As `SnapshotSource.look`."""
        with self._reading():
            self.db.execute("BEGIN")
            self.db.execute("SELECT * FROM meta").fetchone()

    async def let_go(self) -> None:
        if self._holder is not None and self._holder.in_transaction:
            self._holder.execute("ROLLBACK")

    @property
    def db(self) -> sqlite3.Connection:
        assert self._reader is not None
        return self._reader

    def copy_file(self, to: Path, progress: Progress) -> None:
        """One file, without a log beside it. Raises StoreError."""

        def told(status: int, remaining: int, total: int) -> None:
            share = 100 if total == 0 else 100 * (total - remaining) // total
            progress(f"copying {self.path}: {share} %")

        to.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(to, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with self._reading(), closing(sqlite3.connect(to)) as target:
            self.db.backup(target, pages=_STEP_PAGES, progress=told)
            target.execute("PRAGMA journal_mode = DELETE").fetchall()

    async def close(self) -> None:
        await self.let_go()
        for db in (self._reader, self._holder):
            if db is not None:
                db.close()
        self._reader = self._holder = None

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise refusal(self.path, error) from error
