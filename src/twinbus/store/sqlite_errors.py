"""What SQLite's errors mean to the owner of a store.

What matters is whether a transaction has happened. If an error comes before
COMMIT and the rollback works, nothing has happened. If COMMIT itself fails, that is
certain for a full disk only: SQLite reports it before the last page is written. After a
failed sync, for example, a crash may bring the pages of the transaction back.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from twinbus.store.base import (
    CommitFailed,
    CommitUnknown,
    StoreError,
    StoreFull,
    StoreInUse,
    StoreReadOnly,
    StoreUnreadable,
)

_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
# The second is how SQLite calls a full disk when it needs room for its -shm file.
_FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)
_PRIMARY_CODE = 0xFF


class Busy(CommitFailed):
    """Another program is writing to the file; nothing of the commit happened."""


def _is_any(error: sqlite3.Error, codes: tuple[int, ...]) -> bool:
    # Errors of the Python module itself have no code.
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code in codes or code & _PRIMARY_CODE in codes


def unreadable(path: Path, why: str) -> StoreUnreadable:
    """A refusal that says what to do."""
    return StoreUnreadable(
        f"{path} cannot be read: {why}. Restore a backup of the data folder, or move "
        "the folder away to start with an empty one."
    )


def locked(path: Path) -> StoreInUse:
    """The error for a file that another program has locked."""
    return StoreInUse(
        f"{path} is in use by another program: stop it or choose another --data."
    )


def _is_read_only(path: Path, error: sqlite3.Error) -> bool:
    if _is_any(error, (sqlite3.SQLITE_READONLY,)):
        return True
    # It cannot make its log.
    is_shut = path.exists() and not os.access(path.parent, os.W_OK)
    return is_shut and _is_any(error, (sqlite3.SQLITE_CANTOPEN,))


def read_only(path: Path) -> StoreReadOnly:
    """The error for a disk that is mounted for reading."""
    return StoreReadOnly(
        f"{path} can only be read: its disk or its folder does not let the bus write. "
        "Mount the disk for writing, or give the bus the right to write."
    )


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Errors of what only reads. Raises StoreUnreadable, StoreInUse, StoreFull (to read
    takes shared memory, which is a file), StoreError."""
    try:
        yield
    except sqlite3.Error as error:
        if _is_any(error, _DAMAGED):
            raise unreadable(path, str(error)) from error
        if _is_any(error, _LOCKED):
            raise locked(path) from error
        if _is_any(error, _FULL) or _is_read_only(path, error):
            raise refusal(path, error) from error
        raise StoreError(f"{path} could not be read: {error}") from error


class _RolledBack(Exception):
    """Ends a transaction that is to be rolled back."""


@contextmanager
def rolled_back(db: sqlite3.Connection, path: Path) -> Iterator[None]:
    """What is written inside can be read inside, and is rolled back afterwards.

    Raises StoreUnreadable, StoreInUse and other StoreErrors.
    """
    with suppress(_RolledBack), transaction(db, path), reading(path):
        yield
        raise _RolledBack


@contextmanager
def transaction(db: sqlite3.Connection, path: Path) -> Iterator[None]:
    """What is inside happens whole, durably, or not at all.

    Raises StoreFull, CommitFailed (Busy), CommitUnknown.
    """
    # One whose rollback failed may still be open.
    _roll_back(db, path)
    try:
        db.execute("BEGIN IMMEDIATE")
    except sqlite3.Error as error:
        raise refusal(path, error) from error
    try:
        yield
    except sqlite3.Error as error:
        _roll_back(db, path)
        raise refusal(path, error) from error
    except BaseException:
        _roll_back(db, path)
        raise
    try:
        db.execute("COMMIT")
    except sqlite3.Error as error:
        _roll_back(db, path)
        if _is_any(error, (sqlite3.SQLITE_FULL,)):
            raise refusal(path, error) from error
        raise CommitUnknown(f"{path}: a commit may have failed: {error}") from error


def _roll_back(db: sqlite3.Connection, path: Path) -> None:
    # Some errors make SQLite roll back by itself.
    if not db.in_transaction:
        return
    try:
        db.execute("ROLLBACK")
    except sqlite3.Error as error:
        raise CommitUnknown(f"{path}: a rollback failed: {error}") from error


def refusal(path: Path, error: sqlite3.Error) -> StoreError:
    """Why nothing was written."""
    if _is_any(error, _FULL):
        return StoreFull(f"There is no room on the disk of {path}.")
    if _is_any(error, _LOCKED):
        return Busy(f"{path} is being written to by another program.")
    if _is_read_only(path, error):
        return read_only(path)
    return CommitFailed(f"{path} could not be written: {error}")
