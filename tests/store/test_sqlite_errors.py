"""The outcome of a transaction, after each way it can fail."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from twinbus.store.base import (
    CommitFailed,
    CommitUnknown,
    StoreFull,
    StoreReadOnly,
)
from twinbus.store.sqlite import SqliteStore

from . import workload


class FaultyConnection(sqlite3.Connection):
    """Fails in one statement, with a given code."""

    # Statement to fail in, and SQLite's code; set by the test.
    fault: tuple[str, int] | None = None

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        if self.fault is not None and sql.startswith(self.fault[0]):
            error = sqlite3.OperationalError("the disk says no")
            error.sqlite_errorcode = self.fault[1]
            raise error
        return super().execute(sql, *args)


@pytest.fixture
async def store(tmp_path: Path) -> SqliteStore:
    """A store with one commit, over a connection that can be made to fail."""
    path = tmp_path / "store.sqlite3"
    store = SqliteStore(path)
    await workload.commit_up_to(store, "test", 1)
    store._db.close()
    store._file.open_db = sqlite3.connect(
        path, isolation_level=None, factory=FaultyConnection
    )
    return store


def _set_fault(store: SqliteStore, statement: str, code: int) -> None:
    assert isinstance(store._db, FaultyConnection)
    store._db.fault = (statement, code)


def _clear_fault(store: SqliteStore) -> None:
    assert isinstance(store._db, FaultyConnection)
    store._db.fault = None


@pytest.mark.parametrize(
    ("statement", "code", "expected"),
    [
        ("BEGIN", sqlite3.SQLITE_BUSY, CommitFailed),
        ("BEGIN", sqlite3.SQLITE_IOERR, CommitFailed),
        ("INSERT", sqlite3.SQLITE_IOERR, CommitFailed),
        ("INSERT", sqlite3.SQLITE_FULL, StoreFull),
        ("COMMIT", sqlite3.SQLITE_FULL, StoreFull),
        ("BEGIN", sqlite3.SQLITE_READONLY, StoreReadOnly),
        ("INSERT", sqlite3.SQLITE_READONLY, StoreReadOnly),
    ],
)
async def test_failed_commit_leaves_nothing(
    store: SqliteStore, statement: str, code: int, expected: type[Exception]
) -> None:
    _set_fault(store, statement, code)
    with pytest.raises(expected):
        await store.commit(workload.changes_of(2, epoch=1))
    _clear_fault(store)
    assert await workload.expect_content(store) == 1
    await store.commit(workload.changes_of(2, epoch=1))
    assert await workload.expect_content(store) == 2
    await store.close()


async def test_failure_in_commit_is_unknown_until_asked(store: SqliteStore) -> None:
    _set_fault(store, "COMMIT", sqlite3.SQLITE_IOERR_FSYNC)
    with pytest.raises(CommitUnknown):
        await store.commit(workload.changes_of(2, epoch=1))
    with pytest.raises(CommitUnknown):
        await store.last_batch()
    _clear_fault(store)
    assert await store.last_batch() == 1
    await store.commit(workload.changes_of(2, epoch=1))
    assert await workload.expect_content(store) == 2
    await store.close()


async def test_asking_settles_the_matter_by_writing(store: SqliteStore) -> None:
    """What a crash could bring to life is written over in the WAL."""
    _set_fault(store, "COMMIT", sqlite3.SQLITE_IOERR_FSYNC)
    with pytest.raises(CommitUnknown):
        await store.commit(workload.changes_of(2, epoch=1))
    _clear_fault(store)
    beats = "SELECT beat FROM lease"
    before = store._db.execute(beats).fetchone()[0]
    await store.last_batch()
    assert store._db.execute(beats).fetchone()[0] == before + 1
    await store.last_batch()
    assert store._db.execute(beats).fetchone()[0] == before + 1, "once"
    await store.close()


async def test_failure_in_rollback_is_unknown_until_asked(store: SqliteStore) -> None:
    _set_fault(store, "INSERT", sqlite3.SQLITE_IOERR)
    statements = store._db
    assert isinstance(statements, FaultyConnection)
    original = statements.execute

    def fail_in_rollback(sql: str, *args: Any) -> sqlite3.Cursor:
        if sql == "ROLLBACK":
            raise sqlite3.OperationalError("the disk says no")
        return original(sql, *args)

    statements.execute = fail_in_rollback  # type: ignore[method-assign]
    with pytest.raises(CommitUnknown):
        await store.commit(workload.changes_of(2, epoch=1))
    del statements.execute
    _clear_fault(store)
    assert await store.last_batch() == 1
    await store.close()


async def test_commit_waits_for_another_writer_and_gives_up(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite3"
    store = SqliteStore(path)
    await workload.commit_up_to(store, "test", 1)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(CommitFailed, match="another program"):
        await store.commit(workload.changes_of(2, epoch=1))
    other.execute("ROLLBACK")
    other.close()
    await store.commit(workload.changes_of(2, epoch=1))
    assert await workload.expect_content(store) == 2
    await store.close()
