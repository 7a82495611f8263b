"""Where the stores under test keep their data."""

import secrets
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg

from bench.postgres_server import PostgresServer
from twinbus.store.base import Store
from twinbus.store.catalog import Catalog
from twinbus.store.memory import MemoryDisk, MemoryStore
from twinbus.store.memory_catalog import MemoryCatalog
from twinbus.store.postgres import PostgresStore
from twinbus.store.postgres_catalog import PostgresCatalog
from twinbus.store.postgres_lease_watch import LeaseWatch
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


class PostgresPlace:
    """Two schemas of a server, and a clock that only moves when it is told."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.schema = f"t_{secrets.token_hex(8)}"
        self.options: dict[str, str] = {}
        self.segment_bytes = 1 << 20
        self._now = 1_000_000
        self.watch = LeaseWatch(lambda: self._now)

    @property
    def url(self) -> str:
        return self.server.url(self.schema, **self.options)

    def store(self) -> PostgresStore:
        return PostgresStore(
            self.url, watch=self.watch, segment_bytes=self.segment_bytes
        )

    async def later(self, now: int, duration_ms: int) -> int:
        self._now += duration_ms
        return now + duration_ms

    async def orphan(self) -> None:
        self.run("UPDATE lease SET owner = NULL")

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """A statement of somebody else."""
        with psycopg.connect(self.server.conninfo, autocommit=True) as db:
            db.execute(f"SET search_path = {self.schema}")
            done = db.execute(statement, values)
            return done.fetchall() if done.description else []

    def end_backends(self) -> None:
        """Of the owner, as an administrator would."""
        self.run(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity, lease"
            " WHERE application_name = lease.application"
        )

    def catalog(self) -> PostgresCatalog:
        return PostgresCatalog(self.server.url(f"{self.schema}_catalog"))
