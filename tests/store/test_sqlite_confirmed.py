"""Confirmed commits are recorded beside the store: a lost end is found."""

import logging
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from twinbus.store.base import CommitsLost
from twinbus.store.opening import open_store
from twinbus.store.sqlite import SqliteStore
from twinbus.store.sqlite_confirmed import (
    accept_loss,
    confirmed_path,
    found_in,
    read_confirmation,
)

from . import workload

COMMITS = 12


@pytest.fixture
async def crashed(tmp_path: Path) -> Path:
    """A store as a crash leaves it, with all commits of its last life in the log."""
    path = tmp_path / "store.sqlite3"
    store = SqliteStore(path)
    await workload.commit_up_to(store, "first", 3)
    await store.close()
    await workload.commit_up_to(store, "second", COMMITS)
    left = tmp_path / "crashed"
    left.mkdir()
    for suffix in ("", "-wal", "-confirmed"):
        shutil.copy(f"{path}{suffix}", left)
    await store.close()
    return left / path.name


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _remove(*paths: Path) -> None:
    for path in paths:
        path.unlink()


def _put(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _content(path: Path) -> bytes:
    return path.read_bytes()


async def _opens_with(path: Path, batch: int) -> None:
    store = SqliteStore(path)
    opened = await open_store(store, "test", workload.NOW)
    assert opened.last_batch == batch
    assert await workload.expect_content(store) == batch
    # It goes on from there, and so does the note.
    await store.commit(workload.changes_of(batch + 1, opened.epoch))
    noted = read_confirmation(path)
    assert noted is not None
    assert (noted.epoch, noted.batch) == (opened.epoch, batch + 1)
    await store.close()


async def _refusal(path: Path) -> str:
    with pytest.raises(CommitsLost) as refusal:
        await open_store(SqliteStore(path), "test", workload.NOW)
    return str(refusal.value)


async def test_whole_log_is_taken_over(
    crashed: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await _opens_with(crashed, COMMITS)
    await _opens_with(crashed, COMMITS + 1)
    assert not caplog.messages


async def test_every_cut_of_the_log_is_told(crashed: Path, tmp_path: Path) -> None:
    log = _log_of(crashed).read_bytes()
    frame = 16_384 + 24
    for number, size in enumerate(range(0, len(log), 3 * frame)):
        copy = tmp_path / f"cut{number}"
        shutil.copytree(crashed.parent, copy)
        path = copy / crashed.name
        _log_of(path).write_bytes(log[:size])
        text = await _refusal(path)
        assert f"commit {COMMITS} was confirmed" in text and str(path) in text
        assert _log_of(path).read_bytes() == log[:size], "it is left alone"
    assert number > 5


async def test_refusal_says_how_many_are_gone(crashed: Path) -> None:
    _log_of(crashed).unlink()
    text = await _refusal(crashed)
    assert f"the last one found is 3, so {COMMITS - 3} commits are gone" in text
    assert "--accept-loss" in text
    # The next one is told as well.
    assert await _refusal(crashed) == text


async def test_accepted_loss_opens(crashed: Path) -> None:
    _log_of(crashed).unlink()
    await _refusal(crashed)
    with closing(sqlite3.connect(crashed)) as db:
        found = found_in(db)
    accept_loss(crashed, found)
    await _opens_with(crashed, 3)


async def test_missing_store_is_told(crashed: Path) -> None:
    _remove(crashed, _log_of(crashed))
    assert "is missing" in await _refusal(crashed)
    assert crashed.name not in os.listdir(crashed.parent)
    accept_loss(crashed, None)
    await _opens_with(crashed, 0)


@pytest.mark.parametrize("damage", ["missing", "empty", "flipped", "foreign"])
async def test_damaged_note_does_not_stop_anybody(
    crashed: Path, damage: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    note = confirmed_path(crashed)
    if damage == "missing":
        note.unlink()
    elif damage == "empty":
        note.write_bytes(b"")
    elif damage == "flipped":
        content = bytearray(note.read_bytes())
        content[20] ^= 1
        note.write_bytes(content)
    else:
        other = SqliteStore(tmp_path / "other.sqlite3")
        await workload.commit_up_to(other, "other", COMMITS + 9)
        await other.close()
        shutil.copy(confirmed_path(other.path), note)
    await _opens_with(crashed, COMMITS)
    assert str(note) in caplog.messages[0]


async def test_note_that_cannot_be_written_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "store.sqlite3"
    confirmed_path(path).mkdir()
    store = SqliteStore(path)
    await workload.commit_up_to(store, "test", 5)
    assert await workload.expect_content(store) == 5
    await store.close()
    troubles = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert len(troubles) == 2, "once read, once written"


async def test_older_note_says_nothing(
    crashed: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As a power cut may leave it: it is never synced after a commit."""
    note = confirmed_path(crashed).read_bytes()
    await _opens_with(crashed, COMMITS)
    confirmed_path(crashed).write_bytes(note)
    await _opens_with(crashed, COMMITS + 1)
    assert not caplog.messages


@pytest.mark.parametrize("how", ["vacuum", "backup"])
async def test_backup_made_in_the_same_life_opens(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "store.sqlite3"
    store = SqliteStore(path)
    await workload.commit_up_to(store, "test", 4)
    copy = tmp_path / "copy.sqlite3"
    with closing(sqlite3.connect(path)) as db:
        if how == "vacuum":
            db.execute(f"VACUUM INTO '{copy}'")
        else:
            with closing(sqlite3.connect(copy)) as into:
                db.backup(into)
    epoch = store._file.epoch
    for batch in range(5, 9):
        await store.commit(workload.changes_of(batch, epoch))
    await store.close()
    # Over the old file, as `cp` does: even the inode stays.
    path.write_bytes(copy.read_bytes())
    await _opens_with(path, 4)
    assert "is an older copy: its last commit is 4" in caplog.messages[0]
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_copy_of_an_earlier_life_opens(
    crashed: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The file of a stopped bus, put back without its note."""
    await _opens_with(crashed, COMMITS)
    kept = _content(crashed)
    await _opens_with(crashed, COMMITS + 1)
    _put(crashed, kept)
    await _opens_with(crashed, COMMITS + 1)
    assert "is an older copy" in caplog.messages[0]


async def test_copied_folder_opens_elsewhere(
    crashed: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(crashed.parent, tmp_path / "elsewhere")
    await _opens_with(tmp_path / "elsewhere" / crashed.name, COMMITS)
    assert not caplog.messages


async def test_log_removed_under_a_killed_owner_is_told(tmp_path: Path) -> None:
    """Right after the lease was taken, with the first commit."""
    path = tmp_path / "store.sqlite3"
    child = workload.start("step", path)
    assert child.stdin is not None and child.stdout is not None
    assert child.stdout.readline() == "open\n"
    child.stdin.write("\n")
    child.stdin.flush()
    assert child.stdout.readline() == "1\n"
    child.kill()
    child.communicate()
    os.unlink(_log_of(path))
    assert "the last one found is 0, so 1 commits are gone" in await _refusal(path)
