"""Copies a store or a catalog out of a PostgreSQL schema, while others write to it.

Every commit locks the row of the lease, and every change of a catalog the row of its
version: so whoever has that row keeps them waiting. A second session begins its
snapshot meanwhile, and tables are copied from that, in PostgreSQL's binary form.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, final

import psycopg

from twinbus.backup.manifest import POSTGRES, BackedUpStore, Progress
from twinbus.store.base import StoreUnreadable
from twinbus.store.catalog_move import CatalogContent, check_marks
from twinbus.store.postgres import DEFAULT_SCHEMA
from twinbus.store.postgres_catalog import DEFAULT_SCHEMA as CATALOG_SCHEMA
from twinbus.store.postgres_catalog import PostgresCatalog
from twinbus.store.postgres_errors import connecting
from twinbus.store.postgres_format import FORMAT
from twinbus.store.postgres_schema import check_schema
from twinbus.store.postgres_session import PostgresSession, connect
from twinbus.store.postgres_url import PostgresUrl, parse_postgres_url
from twinbus.store.statements import named_statements

SQL: Final = named_statements("postgres_backup.sql")

NOT_COPIED: Final = frozenset({"twinbus_meta", "lease", "renewal"})
"""Rows of these belong to one schema; what counts of them is in the manifest."""

_MESSAGES: Final = ("message", "deferred", "scheduled")
_NAME: Final = "twinbus backup"
_TRY_SECONDS: Final = 0.001


async def _held(session: PostgresSession, statement: str, until: float) -> bool:
    """Lock a row, without waiting in the queue of those who want it: behind a waiting
    backup the commits would wait, too."""
    while True:
        await session.rows("BEGIN")
        try:
            await session.rows(statement)
            return True
        except psycopg.errors.LockNotAvailable:
            await session.roll_back()
        if asyncio.get_running_loop().time() >= until:
            return False
        await asyncio.sleep(_TRY_SECONDS)


@final
class PostgresStoreSource:
    """A store in a schema."""

    def __init__(self, url: str) -> None:
        self._url: PostgresUrl = parse_postgres_url(url, DEFAULT_SCHEMA)
        self._holder: PostgresSession | None = None
        self._reader: PostgresSession | None = None
        self._is_held = False

    @property
    def location(self) -> str:
        return self._url.location

    async def open(self) -> None:
        self._holder = await connect(self._url, _NAME)
        self._reader = await connect(self._url, _NAME)
        if not await check_schema(self._reader, self._url, FORMAT):
            raise StoreUnreadable(f"There is no store {self.location}.")
        async with self._answering() as session:
            for name in ("no_timeout", "no_idle_timeout", "read_all"):
                await session.rows(SQL[name])

    async def hold(self, until: float) -> bool:
        assert self._holder is not None
        with connecting(self.location):
            self._is_held = await _held(self._holder, SQL["hold_store"], until)
        return self._is_held

    async def look(self) -> None:
        async with self._answering() as session:
            await session.rows(SQL["begin"])
            await session.rows(SQL["keep_segments"])
            await session.rows(SQL["identity"])

    async def let_go(self) -> None:
        if self._holder is not None and self._is_held:
            await self._holder.roll_back()
        self._is_held = False

    async def copy(self, folder: Path, name: str, progress: Progress) -> BackedUpStore:
        (folder / name).mkdir()
        async with self._answering() as session:
            ((uuid, version, epoch, through, trimmed, batch),) = await session.rows(
                SQL["identity"]
            )
            tables: dict[str, dict[str, Any]] = {}
            for table in sorted(FORMAT.tables - NOT_COPIED):
                progress(f"copying {self.location}: {table}")
                columns = [
                    column for (column,) in await session.rows(SQL["columns"], (table,))
                ]
                file = folder / name / f"{table}.copy"
                await _copy_table(session, table, columns, file)
                ((count,),) = await session.rows(
                    SQL["count"].replace("{table}", table), (), seconds=24 * 3600.0
                )
                tables[table] = {"columns": columns, "rows": count}
        return BackedUpStore(
            kind=POSTGRES,
            location=self.location,
            uuid=bytes(uuid).hex(),
            format_version=version,
            epoch=epoch,
            batch=batch,
            message_count=sum(tables[table]["rows"] for table in _MESSAGES),
            place=name,
            details={
                "tables": tables,
                "fragments_through": through,
                "trimmed_through": trimmed,
            },
        )

    async def close(self) -> None:
        await self.let_go()
        for session in (self._reader, self._holder):
            if session is not None:
                await session.close()
        self._reader = self._holder = None

    @asynccontextmanager
    async def _answering(self) -> AsyncIterator[PostgresSession]:
        assert self._reader is not None
        with connecting(self.location):
            yield self._reader


async def _copy_table(
    session: PostgresSession, table: str, columns: list[str], file: Path
) -> None:
    # From a query, because the rows of segments are in children of the table.
    statement = (
        f"COPY (SELECT {', '.join(columns)} FROM {table}) TO STDOUT (FORMAT binary)"
    )
    descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        async for portion in session.copy_out(statement):
            stream.write(portion)


@final
class PostgresCatalogSource:
    """A catalog in a schema. It is read while it is held: it is small."""

    def __init__(self, url: str) -> None:
        self._url: PostgresUrl = parse_postgres_url(url, CATALOG_SCHEMA)
        self._catalog = PostgresCatalog(url)
        self._holder: PostgresSession | None = None
        self._is_held = False
        self._content: CatalogContent | None = None

    @property
    def location(self) -> str:
        return self._url.location

    async def open(self) -> None:
        if not self._catalog.exists():
            raise StoreUnreadable(f"There is no catalog {self.location}.")
        check_marks(self.location, await self._catalog.open_marked())
        self._holder = await connect(self._url, _NAME)

    async def hold(self, until: float) -> bool:
        assert self._holder is not None
        with connecting(self.location):
            self._is_held = await _held(self._holder, SQL["hold_catalog"], until)
        return self._is_held

    async def look(self) -> None:
        self._content = await self._catalog.content()

    async def let_go(self) -> None:
        if self._holder is not None and self._is_held:
            await self._holder.roll_back()
        self._is_held = False

    async def content(self, folder: Path) -> CatalogContent:
        assert self._content is not None
        return self._content

    async def close(self) -> None:
        await self.let_go()
        await self._catalog.close()
        if self._holder is not None:
            await self._holder.close()
            self._holder = None
