"""A SQLite file of ours: made whole, recognised, brought to the current format.

A file is made under another name and gets its own when it is complete. So no process
sees half of a file, and if two make one at the same time, one of them wins. It has an
application id, a format version and the oldest format whose code can read it. A
file that this code cannot read is refused. Opening takes the same time for any number
of rows: it checks the header and the schema. Damage elsewhere is found when it is read.
"""

import os
import secrets
import sqlite3
from dataclasses import dataclass
from errno import ENOSPC, EROFS
from pathlib import Path

from twinbus.store.base import (
    FormatTooNew,
    StoreError,
    StoreFull,
    StoreUnreadable,
)
from twinbus.store.sqlite_copy import keep_copy
from twinbus.store.sqlite_errors import (
    read_only,
    reading,
    refusal,
    transaction,
    unreadable,
)
from twinbus.store.statements import migrations

_PAGE_BYTES = 16_384
_CHECKPOINT_PAGES = 500
"""The WAL is copied into the file when it has so many. A small WAL that is written
over syncs faster than one that grows, and the stall is short (decision 0002)."""

CHECKPOINT_BYTES = _CHECKPOINT_PAGES * _PAGE_BYTES
"""The same, as the size of the log's file."""

_CACHED_STATEMENTS = 256
"""More than there are statements, so that each is prepared once."""

_BUSY_TIMEOUT_MS = 500
"""How long a transaction waits for another program's (a backup, say). The event
loop waits with it."""

_PRAGMAS = (
    f"busy_timeout = {_BUSY_TIMEOUT_MS}",
    # FULL: a commit is on disk when COMMIT returns, in WAL mode too.
    "synchronous = FULL",
    f"wal_autocheckpoint = {_CHECKPOINT_PAGES}",
    # Damaged pages are noticed instead of misread.
    "cell_size_check = ON",
    "trusted_schema = OFF",
    "temp_store = MEMORY",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteFormat:
    """A kind of file, with all formats it has had."""

    # What the file is, in messages.
    noun: str
    application_id: int
    # Folder of `sql/`.
    migrations: str
    # Written into new files.
    version: int
    # What must be there in the current format.
    tables: frozenset[str]


def open_file(path: Path, kind: SqliteFormat) -> sqlite3.Connection:
    """A connection to a file of this kind, which is made if it does not exist.

    Raises StoreUnreadable, StoreInUse and other StoreErrors. The caller migrates.
    """
    try:
        if not path.exists():
            _make(path, kind)
        db = _connect(path)
    except OSError as error:
        if error.errno == ENOSPC:
            raise StoreFull(f"There is no room on the disk of {path}.") from error
        if error.errno == EROFS:
            raise read_only(path) from error
        raise StoreError(f"{path} could not be opened: {error}") from error
    except sqlite3.Error as error:
        raise refusal(path, error) from error
    try:
        with reading(path):
            _recognise(db, path, kind)
            for pragma in _PRAGMAS:
                db.execute(f"PRAGMA {pragma}")
    except StoreError:
        db.close()
        raise
    return db


def connect_to_read(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing: it leaves a log as it is even if it is the
    last one to close. Raises sqlite3.Error."""
    return _connect(path, "ro")


def connect_to_write(path: Path) -> sqlite3.Connection:
    """A connection to a file that was looked at before. Raises sqlite3.Error."""
    db = _connect(path)
    db.execute("PRAGMA synchronous = FULL")
    return db


def _connect(path: Path, mode: str = "rw") -> sqlite3.Connection:
    # mode=rw: a file that was removed meanwhile must not be made again, empty.
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=_BUSY_TIMEOUT_MS / 1000,
        cached_statements=_CACHED_STATEMENTS,
    )


def _make(path: Path, kind: SqliteFormat) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.new-{secrets.token_hex(8)}")
    # Only our user may read messages and keys. SQLite gives -wal and -shm the same
    # permissions.
    os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    try:
        _fill(unfinished, kind)
        os.link(unfinished, path)
    except FileExistsError:
        pass
    finally:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{unfinished}{suffix}").unlink(missing_ok=True)
    sync_folder(path.parent)


def _fill(path: Path, kind: SqliteFormat) -> None:
    db = _connect(path)
    try:
        db.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
        db.execute(f"PRAGMA application_id = {kind.application_id}")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        with transaction(db, path):
            _apply_migrations(db, kind, from_version=0)
    finally:
        # The last connection to close leaves a file without a WAL.
        db.close()


def settle_log(db: sqlite3.Connection, path: Path) -> None:
    """Copy the log into the file, except what others are reading. A file that SQLite
    copied without a log gets one. Raises StoreFull, StoreError."""
    try:
        db.execute("PRAGMA journal_mode = WAL").fetchall()
        # After this the schema of a migrated file must be read again, which a
        # checkpoint cannot do.
        db.execute("SELECT count(*) FROM sqlite_master").fetchall()
        db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    except sqlite3.Error as error:
        raise refusal(path, error) from error


def sync_folder(folder: Path) -> None:
    """Make the names of new files durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _recognise(db: sqlite3.Connection, path: Path, kind: SqliteFormat) -> None:
    application_id = db.execute("PRAGMA application_id").fetchone()[0]
    if application_id == kind.application_id:
        return
    if path.stat().st_size == 0:
        # Moving it away would be the end of what the other file holds.
        raise StoreUnreadable(
            f"{path} is empty: the {kind.noun} that it was is lost. Put a backup in "
            "its place."
        )
    raise StoreUnreadable(
        f"{path} is not a twinbus {kind.noun}. Choose another folder, or put the "
        "right file in its place."
    )


def migrate(
    db: sqlite3.Connection, path: Path, kind: SqliteFormat, *, keeps_copy: bool = True
) -> None:
    """Bring an older file to the current format, inside the caller's transaction. A
    verified copy of the old one is kept, unless the caller will roll back.

    Raises StoreUnreadable for a format that this code cannot read, StoreFull where
    there is no room for the copy.
    """
    if "meta" not in _tables(db):
        raise unreadable(path, "it lacks the table meta")
    row = db.execute("SELECT format_version, min_reader_version FROM meta").fetchone()
    if row is None:
        raise unreadable(path, "its format version is missing")
    format_version, min_reader_version = row
    if min_reader_version > kind.version:
        raise FormatTooNew(
            f"{path} has format {format_version}, which needs a twinbus that knows "
            f"format {min_reader_version}; this one knows formats up to "
            f"{kind.version}. Use a newer twinbus."
        )
    if format_version < kind.version and keeps_copy:
        keep_copy(path, format_version)
    _apply_migrations(db, kind, from_version=format_version)
    missing = kind.tables - _tables(db)
    if missing:
        raise unreadable(path, f"it lacks the table {min(missing)}")


def _tables(db: sqlite3.Connection) -> set[str]:
    names = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return {name for (name,) in names}


def _apply_migrations(
    db: sqlite3.Connection, kind: SqliteFormat, *, from_version: int
) -> None:
    for version, statements in migrations(kind.migrations):
        if from_version < version <= kind.version:
            for statement in statements:
                db.execute(statement)
