"""Unreadable files: the error says which and what to do; the file is not changed."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from twinbus.broker.changes import ChangeSet, SharedBody
from twinbus.store.base import CommitFailed, StoreError, StoreUnreadable
from twinbus.store.checks.owner import message
from twinbus.store.opening import open_store
from twinbus.store.sqlite import FORMAT, SqliteStore
from twinbus.store.sqlite_catalog import FORMAT as CATALOG
from twinbus.store.sqlite_catalog import SqliteCatalog

from . import workload
from .places import SqlitePlace

COMMITS = 30
PAGE_BYTES = 16_384


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A store that was closed cleanly."""
    path = tmp_path / "store.sqlite3"
    store = SqliteStore(path)
    await workload.commit_up_to(store, "test", COMMITS)
    await store.close()
    return path


async def _refusal(path: Path) -> str:
    with pytest.raises(StoreUnreadable) as refusal:
        await open_store(SqliteStore(path), "test", workload.NOW)
    assert str(path) in str(refusal.value)
    return str(refusal.value)


def _change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement)


@pytest.mark.parametrize(
    "content",
    [b"", b"hello, world\n", bytes(100_000), b"SQLite format 3\0" + bytes(5000)],
    ids=["empty", "text", "zeros", "only the magic"],
)
async def test_file_that_is_no_store_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "store.sqlite3"
    path.write_bytes(content)
    await _refusal(path)
    assert path.read_bytes() == content, "it is left alone"


def _overwrite(path: Path, offset: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


async def test_damaged_header_is_refused(path: Path) -> None:
    _overwrite(path, 0, b"\xa5" * 100)
    assert "Restore a backup" in await _refusal(path)


async def test_truncated_file_is_refused(path: Path) -> None:
    os.truncate(path, 3 * PAGE_BYTES)
    assert "Restore a backup" in await _refusal(path)


async def test_file_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite3"
    _change(path, "CREATE TABLE lease (contract TEXT)")
    before = path.read_bytes()
    assert "not a twinbus store" in await _refusal(path)
    assert path.read_bytes() == before, "it is left alone"


async def test_catalog_is_not_a_store(sqlite_place: SqlitePlace) -> None:
    catalog = sqlite_place.catalog()
    await catalog.open()
    await catalog.close()
    assert "not a twinbus store" in await _refusal(sqlite_place.catalog_path)
    store = sqlite_place.store()
    await open_store(store, "test", workload.NOW)
    await store.close()
    with pytest.raises(StoreUnreadable, match="not a twinbus catalog"):
        await SqliteCatalog(sqlite_place.store_path).open()


@pytest.mark.parametrize(
    "table", ["meta", "lease", "fragment", "scheduled", "reader_lease"]
)
async def test_missing_table_is_refused(path: Path, table: str) -> None:
    _change(path, f"DROP TABLE {table}")
    assert table in await _refusal(path)


@pytest.mark.parametrize("table", ["meta", "lease"])
async def test_missing_row_is_refused(path: Path, table: str) -> None:
    _change(path, f"DELETE FROM {table}")
    await _refusal(path)


async def test_newer_format_is_refused_with_both_versions(path: Path) -> None:
    _change(path, "UPDATE meta SET format_version = 9, min_reader_version = 7")
    text = await _refusal(path)
    assert (
        "format 9" in text
        and "format 7" in text
        and f"formats up to {FORMAT.version}" in text
    )


async def test_newer_format_of_a_catalog_is_refused(sqlite_place: SqlitePlace) -> None:
    catalog = sqlite_place.catalog()
    await catalog.open()
    await catalog.close()
    _change(
        sqlite_place.catalog_path,
        "UPDATE meta SET format_version = 9, min_reader_version = 7",
    )
    with pytest.raises(StoreUnreadable, match=f"formats up to {CATALOG.version}"):
        await catalog.open()


async def test_newer_format_that_still_can_be_read_is_opened(path: Path) -> None:
    _change(path, "UPDATE meta SET format_version = 9, min_reader_version = 2")
    store = SqliteStore(path)
    await open_store(store, "test", workload.NOW)
    assert await workload.expect_content(store) == COMMITS
    await store.close()


async def test_row_without_its_shared_body_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite3"
    store = SqliteStore(path)
    opened = await open_store(store, "test", workload.NOW)
    changes = ChangeSet()
    changes.bodies_added.append(SharedBody(body_id=1, raw=b"shared"))
    changes.bodies_taken.append(1)
    changes.active_added.append(
        message(workload.FRAGMENT, 1, body_id=1, is_shared=True, raw=b"shared")
    )
    changes.seal(opened.epoch, 1, workload.NOW)
    await store.commit(changes)
    _change(path, "DELETE FROM shared_body")
    with pytest.raises(StoreUnreadable, match="shared body that is missing"):
        await store.read_active(workload.FRAGMENT, 0, 100, 1 << 30)
    with pytest.raises(StoreUnreadable, match="shared body that is missing"):
        await store.outlines(workload.FRAGMENT, 0, 100, 100)
    await store.close()


def _destroy_messages(path: Path) -> None:
    """Overwrite the page that leads to all active messages."""
    with closing(sqlite3.connect(path)) as db:
        root = db.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'message'"
        ).fetchone()[0]
    _overwrite(path, (root - 1) * PAGE_BYTES, b"\xff" * PAGE_BYTES)


async def test_damaged_page_is_found_when_it_is_read(path: Path) -> None:
    _destroy_messages(path)
    store = SqliteStore(path)
    opened = await open_store(store, "test", workload.NOW)
    with pytest.raises(StoreUnreadable, match="Restore a backup"):
        await store.read_active(workload.FRAGMENT, 0, 100, 1 << 30)
    with pytest.raises(StoreUnreadable, match="Restore a backup"):
        await store.outlines(workload.FRAGMENT, 0, 100, 100)
    with pytest.raises(CommitFailed):
        await store.commit(workload.changes_of(COMMITS + 1, opened.epoch))
    assert await store.last_batch() == COMMITS
    await store.close()


async def test_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match=str(tmp_path / "file")):
        await open_store(
            SqliteStore(tmp_path / "file" / "store.sqlite3"), "x", workload.NOW
        )
    with pytest.raises(StoreError, match=str(tmp_path)):
        await open_store(SqliteStore(tmp_path), "x", workload.NOW)


async def test_files_are_private(path: Path) -> None:
    store = SqliteStore(path)
    await open_store(store, "test", workload.NOW)
    for file in path.parent.iterdir():
        assert file.stat().st_mode & 0o077 == 0, file
    await store.close()
