"""A full disk: the commit is refused as a whole, and nothing else is affected."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_disk import small_disk

from twinbus.store.base import StoreFull
from twinbus.store.opening import open_store
from twinbus.store.sqlite import SqliteStore

from . import workload

_MEGABYTE = 1024 * 1024


async def _fill(store: SqliteStore, number: int, epoch: int) -> int:
    """Commit until there is no room; returns the number that was refused."""
    for batch in range(number, number + 10_000):
        try:
            await store.commit(workload.changes_of(batch, epoch))
        except StoreFull as error:
            assert str(store.path) in str(error)
            return batch
    raise AssertionError("there was always room")


async def test_full_database_refuses_and_goes_on(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.sqlite3")
    opened = await open_store(store, "test", workload.NOW)
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    store._db.execute(f"PRAGMA max_page_count = {pages + 20}")
    refused = await _fill(store, 1, opened.epoch)
    assert await workload.expect_content(store) == refused - 1
    store._db.execute(f"PRAGMA max_page_count = {1 << 30}")
    await store.commit(workload.changes_of(refused, opened.epoch))
    assert await workload.expect_content(store) == refused
    await store.close()


@pytest.fixture(name="small_disk")
def _small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    with small_disk(tmp_path / "disk", megabytes=2) as folder:
        yield folder


async def test_full_disk_refuses_and_goes_on(small_disk: Path) -> None:
    store = SqliteStore(small_disk / "store.sqlite3")
    opened = await open_store(store, "test", workload.NOW)
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(_MEGABYTE))
    refused = await _fill(store, 1, opened.epoch)
    assert await workload.expect_content(store) == refused - 1
    with pytest.raises(StoreFull):
        await store.commit(workload.changes_of(refused, opened.epoch))
    ballast.unlink()
    await store.commit(workload.changes_of(refused, opened.epoch))
    assert await workload.expect_content(store) == refused
    await store.close()
    await open_store(store, "again", workload.NOW)
    assert await workload.expect_content(store) == refused
    await store.close()


async def test_full_disk_refuses_to_make_a_store(small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(bytes(2 * _MEGABYTE - 32 * 1024))
    store = SqliteStore(small_disk / "store.sqlite3")
    with pytest.raises(StoreFull):
        await open_store(store, "test", workload.NOW)
    assert os.listdir(small_disk) == ["ballast"]


async def test_file_size_limit_loses_nothing_that_was_confirmed(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite3"
    child = workload.start("run", path, file_bytes=_MEGABYTE)
    output, _ = child.communicate()
    *confirmed, error = output.splitlines()
    # The system does not say "full", so what became of the commit is not certain.
    assert error.startswith(("CommitUnknown: ", "CommitFailed: ")), error
    last = int(confirmed[-1])
    store = SqliteStore(path)
    await open_store(store, "test", workload.NOW)
    assert await workload.expect_content(store) in (last, last + 1)
    await store.close()
