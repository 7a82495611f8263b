"""The copy that is kept of a file before it is migrated.

A migration cannot be undone, so the file is copied first, in its old format, and the
copy is compared with it. Without room for the copy nothing is migrated. The copy is
made under another name and gets its own when it is complete and on disk.
"""

import logging
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from twinbus.store.base import StoreError, StoreFull

_log = logging.getLogger(__name__)


def keep_copy(path: Path, format_version: int) -> None:
    """Copy the file as it was when the caller's transaction began, which keeps others
    from writing. Raises StoreFull, StoreError."""
    copy = path.with_name(f"{path.name}.format-{format_version}")
    # SQLite does not copy from a connection that is about to write.
    with closing(_connect_to_read(path)) as db:
        _check_room(db, path)
        _copy(db, path, copy)


def _copy(db: sqlite3.Connection, path: Path, copy: Path) -> None:
    _log.warning("copying %s to %s before it is migrated", path, copy)
    unfinished = copy.with_name(f"{copy.name}.new")
    unfinished.unlink(missing_ok=True)
    try:
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with closing(sqlite3.connect(unfinished)) as target:
            db.backup(target)
            # One file, without a log beside it.
            target.execute("PRAGMA journal_mode = DELETE")
        _check_copy(db, unfinished)
        _sync(unfinished)
        unfinished.rename(copy)
        _sync(path.parent)
    except (OSError, sqlite3.Error) as error:
        unfinished.unlink(missing_ok=True)
        raise StoreError(
            f"{path} could not be copied to {copy}, and is not migrated without a "
            f"copy: {error}."
        ) from error


def _check_room(db: sqlite3.Connection, path: Path) -> None:
    """The migration itself needs about as much again, for its log."""
    pages = db.execute("PRAGMA page_count").fetchone()[0]
    size_bytes = 2 * pages * db.execute("PRAGMA page_size").fetchone()[0]
    free_bytes = shutil.disk_usage(path.parent).free
    if free_bytes < size_bytes:
        raise StoreFull(
            f"{path} is of an older format. To migrate it, and to keep a copy of it, "
            f"{size_bytes} bytes are needed on its disk, and {free_bytes} are free. "
            "Make room, or move the data folder to a larger disk. Nothing was changed."
        )


def _check_copy(db: sqlite3.Connection, copy: Path) -> None:
    """Raises StoreError if the copy is damaged, or lacks something."""
    with closing(_connect_to_read(copy)) as made:
        [(verdict,), *_] = made.execute("PRAGMA integrity_check(1)").fetchall()
        if verdict != "ok":
            raise StoreError(f"{copy} is damaged: {verdict}. Nothing was migrated.")
        if _row_counts(made) != _row_counts(db):
            raise StoreError(f"{copy} lacks rows of its original.")


def _connect_to_read(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def _row_counts(db: sqlite3.Connection) -> dict[str, int]:
    names = db.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table'"
        " AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
    ).fetchall()
    return {
        name: db.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]
        for (name,) in names
    }


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
