"""Where blobs of the operation log come from: a store's file, or a schema.

They are read a portion at a time, beside the bus and without its lock. Each read is
short, so neither commits nor checkpoints wait.
"""

import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol, final

from twinbus.store.export_position import note_exported
from twinbus.store.sqlite_connection import SQL
from twinbus.store.sqlite_file import connect_to_read

PORTION: Final = 256

_LAST: Final = "SELECT coalesce(max(batch), 0) FROM operation_log"
_LAST_IN_JOURNAL: Final = (
    "SELECT coalesce(max(batch), 0) FROM journal WHERE operations IS NOT NULL"
)

Blob = tuple[int, bytes]


class SourceUnavailable(Exception):
    """The store cannot be read now. The text says why."""


class BlobSource(Protocol):
    """The operation log of one store."""

    location: str

    def open(self) -> bytes:
        """The UUID of the store. Raises SourceUnavailable."""
        ...

    def last_batch(self) -> int:
        """The last commit that has a blob; 0: there is none. Raises
        SourceUnavailable."""
        ...

    def blobs(self, after_batch: int, limit: int = PORTION) -> list[Blob]:
        """The blobs that follow. Raises SourceUnavailable."""
        ...

    def note_exported(self, folder: str, batch: int) -> None:
        """Everything up to this commit is in synced files of that folder. Raises
        SourceUnavailable."""
        ...

    def close(self) -> None: ...


@final
class SqliteBlobs:
    """A store that is a file."""

    def __init__(self, path: Path) -> None:
        self.location = str(path)
        self._path = path
        self._db: sqlite3.Connection | None = None

    def open(self) -> bytes:
        try:
            self._db = connect_to_read(self._path)
            (uuid,) = self._db.execute("SELECT store_uuid FROM meta").fetchone()
        except sqlite3.Error as error:
            raise SourceUnavailable(
                f"{self._path} cannot be read: {error}. Is it the store of a bus?"
            ) from error
        return bytes(uuid)

    def last_batch(self) -> int:
        ((batch,),) = self._rows(_LAST, ())
        return int(batch)

    def blobs(self, after_batch: int, limit: int = PORTION) -> list[Blob]:
        return self._rows(SQL["operations"], (after_batch, limit))

    def _rows(self, statement: str, parameters: tuple[int, ...]) -> list[Any]:
        assert self._db is not None, "the source is not open"
        try:
            return self._db.execute(statement, parameters).fetchall()
        except sqlite3.Error as error:
            raise SourceUnavailable(f"{self._path}: {error}") from error

    def note_exported(self, folder: str, batch: int) -> None:
        try:
            note_exported(self._path, folder, batch)
        except OSError as error:
            raise SourceUnavailable(
                f"The position of the export cannot be noted beside {self._path}: "
                f"{error}."
            ) from error

    def close(self) -> None:
        if self._db is not None:
            self._db.close()


@final
class PostgresBlobs:
    """A store that is a schema of a database."""

    def __init__(self, url: str) -> None:
        from twinbus.store.postgres import DEFAULT_SCHEMA
        from twinbus.store.postgres_url import parse_postgres_url

        self._url = parse_postgres_url(url, DEFAULT_SCHEMA)
        self.location = self._url.location
        self._connection: Any = None

    def open(self) -> bytes:
        import psycopg

        from twinbus.store.postgres_session import connect_now

        try:
            self._connection = connect_now(
                self._url, "twinbus log export", autocommit=True
            )
        except psycopg.Error as error:
            raise self._unavailable(error) from error
        ((uuid,),) = self._rows("SELECT store_uuid FROM twinbus_meta")
        return bytes(uuid)

    def _rows(self, statement: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        import psycopg

        try:
            cursor = self._connection.cursor(binary=True)
            cursor.execute(statement, parameters)
            found: list[Any] = cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            raise self._unavailable(error) from error
        return found

    def last_batch(self) -> int:
        ((batch,),) = self._rows(_LAST_IN_JOURNAL)
        return int(batch)

    def blobs(self, after_batch: int, limit: int = PORTION) -> list[Blob]:
        from twinbus.store.postgres_connection import SQL

        rows = self._rows(SQL["operations"], (after_batch, limit))
        return [(batch, bytes(blob)) for batch, blob in rows]

    def note_exported(self, folder: str, batch: int) -> None:
        from twinbus.store.postgres_connection import SQL

        self._rows(SQL["make_export_positions"])
        self._rows(SQL["note_exported"], (folder, batch))

    def _unavailable(self, error: Exception) -> SourceUnavailable:
        return SourceUnavailable(f"{self.location}: {str(error).strip()}")

    def close(self) -> None:
        if self._connection is not None:
            with suppress(Exception):
                self._connection.close()


def source_of(url: str) -> BlobSource:
    """The log of the store that the URL means. Raises StoreError."""
    from twinbus.store.base import StoreError
    from twinbus.store.sqlite import SqliteStore
    from twinbus.store.urls import open_store_url

    store = open_store_url(url)
    if isinstance(store, SqliteStore):
        return SqliteBlobs(store.path)
    if url.partition(":")[0].lower().startswith("postgres"):
        return PostgresBlobs(url)
    raise StoreError("The operation log of a store in memory cannot be exported.")
