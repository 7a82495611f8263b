"""A SQLite store whose syncs are in a thread: hanging, failing, and reading beside."""

import asyncio
import errno
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from twinbus.store import sqlite_apart
from twinbus.store.base import StoreError
from twinbus.store.opening import open_store
from twinbus.store.sqlite import SqliteStore
from twinbus.store.sqlite_apart import ApartLog

from . import workload


class Disk:
    """Syncs that can be held up, or fail."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.is_held = threading.Event()
        self.failures = 0
        self.count = 0

    def sync(self, descriptor: int) -> None:
        self.count += 1
        if not self.goes_on.is_set():
            self.is_held.set()
            self.goes_on.wait()
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EIO, "Input/output error")
        os.fdatasync(descriptor)


async def opened(
    path: Path, disk: Disk, patience: float = 5
) -> tuple[SqliteStore, int]:
    store = SqliteStore(path, ApartLog(path, disk.sync, patience))
    return store, (await open_store(store, "test", workload.NOW)).epoch


async def _held(disk: Disk) -> None:
    await asyncio.to_thread(disk.is_held.wait, 10)
    assert disk.is_held.is_set()


async def test_the_loop_goes_on_while_a_sync_hangs(tmp_path: Path) -> None:
    disk = Disk()
    store, epoch = await opened(tmp_path / "a.sqlite3", disk)
    disk.goes_on.clear()
    commit = asyncio.create_task(store.commit(workload.changes_of(1, epoch)))
    await _held(disk)
    other, other_epoch = await opened(tmp_path / "b.sqlite3", Disk())
    await workload.commit_up_to_opened(other, other_epoch, 5)
    assert not commit.done()
    disk.goes_on.set()
    await commit
    assert await workload.expect_content(store) == 1
    await other.close()
    await store.close()


async def test_nothing_is_read_that_is_not_durable(tmp_path: Path) -> None:
    disk = Disk()
    store, epoch = await opened(tmp_path / "a.sqlite3", disk)
    disk.goes_on.clear()
    commit = asyncio.create_task(store.commit(workload.changes_of(1, epoch)))
    await _held(disk)
    read = asyncio.create_task(store.browse(workload.FRAGMENT, 0, 100, 1_000_000))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not read.done()
    disk.goes_on.set()
    assert len(await read) == workload.ADDED
    await commit
    await store.close()


async def test_a_sync_that_takes_too_long_is_found_out_after_it_returned(
    tmp_path: Path,
) -> None:
    disk = Disk()
    store, epoch = await opened(tmp_path / "a.sqlite3", disk, patience=0.05)
    disk.goes_on.clear()
    with pytest.raises(StoreError, match=r"did not answer for 0\.05 seconds"):
        await store.commit(workload.changes_of(1, epoch))
    with pytest.raises(StoreError, match="did not answer"):
        await store.browse(workload.FRAGMENT, 0, 1, 1)
    await store.close()
    taking = asyncio.create_task(open_store(store, "again", workload.NOW))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not taking.done()
    disk.goes_on.set()
    found = await taking
    assert found.last_batch == 1
    assert await workload.expect_content(store) == 1
    await store.commit(workload.changes_of(2, found.epoch))
    assert await workload.expect_content(store) == 2
    await store.close()


async def test_a_log_that_was_not_synced_is_written_again(tmp_path: Path) -> None:
    disk = Disk()
    path = tmp_path / "a.sqlite3"
    store, epoch = await opened(path, disk)
    disk.failures = 1
    with pytest.raises(StoreError, match="could not be synced"):
        await store.commit(workload.changes_of(1, epoch))
    log = path.with_name("a.sqlite3-wal")
    before = log.read_bytes()
    await store.close()
    # It was not copied: that would have mixed what may be lost into the file.
    assert log.read_bytes() == before
    disk.failures = 1
    with pytest.raises(StoreError, match="could not be synced"):
        await open_store(store, "too early", workload.NOW)
    assert log.read_bytes()[: len(before)] == before
    found = await open_store(store, "again", workload.NOW)
    assert found.last_batch == 1
    await store.close()


async def test_a_damaged_log_ends_before_what_was_not_synced(tmp_path: Path) -> None:
    """The kernel has forgotten what it could not write: the sums tell."""
    disk = Disk()
    path = tmp_path / "a.sqlite3"
    store, epoch = await opened(path, disk)
    await store.commit(workload.changes_of(1, epoch))
    log = path.with_name("a.sqlite3-wal")
    durable = log.stat().st_size
    disk.failures = 1
    with pytest.raises(StoreError, match="could not be synced"):
        await store.commit(workload.changes_of(2, epoch))
    with log.open("r+b") as file:
        file.seek(durable)
        file.write(bytes(log.stat().st_size - durable))
    await store.close()
    found = await open_store(store, "again", workload.NOW)
    assert found.last_batch == 1
    assert await workload.expect_content(store) == 1
    await store.close()


async def test_a_long_log_is_copied_in_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_apart, "CHECKPOINT_BYTES", 300_000)
    path = tmp_path / "a.sqlite3"
    store, epoch = await opened(path, Disk())
    log = path.with_name("a.sqlite3-wal")
    await workload.commit_up_to_opened(store, epoch, 30)
    size_bytes = log.stat().st_size
    assert size_bytes < 1_000_000
    # It is written over: a file that grows takes longer to sync.
    for number in range(31, 61):
        await store.commit(workload.changes_of(number, epoch))
    assert log.stat().st_size < 1.5 * size_bytes
    assert await workload.expect_content(store) == 60
    await store.close()
    assert not path.with_name("a.sqlite3-wal").exists()


async def test_a_reader_keeps_the_log_from_being_begun_anew_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then SQLite syncs the header of a log that begins in place."""
    monkeypatch.setattr(sqlite_apart, "CHECKPOINT_BYTES", 1)
    monkeypatch.setattr(sqlite_apart, "_READER_MS", 0)
    path = tmp_path / "a.sqlite3"
    store, epoch = await opened(path, Disk())
    await workload.commit_up_to_opened(store, epoch, 1)
    reader = sqlite_apart.connect_to_read(path)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM meta").fetchone()
    await store.commit(workload.changes_of(2, epoch))
    assert _synchronous(store) == 1
    reader.close()
    await store.commit(workload.changes_of(3, epoch))
    assert _synchronous(store) == 0
    assert await workload.expect_content(store) == 3
    await store.close()


def _synchronous(store: SqliteStore) -> int:
    level: int = store._db.execute("PRAGMA synchronous").fetchone()[0]
    return level


async def test_commits_do_not_wait_for_somebody_who_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup, for example: the log grows, and is begun anew later."""
    copies: list[bool] = []
    copy = ApartLog.copy

    def counted(log: ApartLog, db: sqlite3.Connection) -> bool:
        copies.append(copy(log, db))
        return copies[-1]

    monkeypatch.setattr(sqlite_apart, "_READER_MS", 1_000_000)
    monkeypatch.setattr(ApartLog, "copy", counted)
    path = tmp_path / "a.sqlite3"
    store, epoch = await opened(path, Disk())
    copies.clear()
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM meta").fetchone()
        for number in range(1, 1000):
            await store.commit(workload.changes_of(number, epoch))
            if copies and number > 2 * len(copies) + 20:
                break
        # It was tried once, and left alone after that.
        assert copies == [False]
    await workload.expect_content(store)
    await store.close()
