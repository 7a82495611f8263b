"""Where the stores under test keep their data."""

import sqlite3
from contextlib import closing
from pathlib import Path

from twinbus.store.base import Store
from twinbus.store.catalog import Catalog
from twinbus.store.memory import MemoryDisk, MemoryStore
from twinbus.store.memory_catalog import MemoryCatalog
from twinbus.store.sqlite import SqliteStore
from twinbus.store.sqlite_apart import ApartLog
from twinbus.store.sqlite_catalog import SqliteCatalog

# No process has this id: Linux stops at 2**22.
DEAD_PID = 2**22 + 1


class MemoryPlace:
    """A disk object and a catalog object."""

    def __init__(self, lease_term_ms: int = 0) -> None:
        self._disk = MemoryDisk(lease_term_ms)
        self._catalog = MemoryCatalog()

    def store(self) -> Store:
        return MemoryStore(self._disk)

    async def later(self, now: int, duration_ms: int) -> int:
        return now + duration_ms

    async def orphan(self) -> None:
        self._disk.owner = None

    def catalog(self) -> Catalog:
        return self._catalog


class SqlitePlace:
    """A folder."""

    def __init__(self, folder: Path) -> None:
        self.store_path = folder / "data" / "store.sqlite3"
        self.catalog_path = folder / "data" / "catalog.sqlite3"

    def store(self) -> SqliteStore:
        return SqliteStore(self.store_path)

    async def later(self, now: int, duration_ms: int) -> int:
        return now + duration_ms

    async def orphan(self) -> None:
        with closing(sqlite3.connect(self.store_path)) as db, db:
            db.execute("UPDATE lease SET pid = ?", (DEAD_PID,))

    def catalog(self) -> SqliteCatalog:
        return SqliteCatalog(self.catalog_path)


class SqliteApartPlace(SqlitePlace):
    """A folder, for a process with several stores: syncs are in a thread."""

    def store(self) -> SqliteStore:
        return SqliteStore(self.store_path, ApartLog(self.store_path))
