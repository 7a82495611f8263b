"""A SQLite store after a crash: every confirmed commit is there, and complete."""

import random
import shutil
from pathlib import Path

import pytest

from twinbus.store.opening import open_store
from twinbus.store.sqlite import SqliteStore

from . import workload

COMMITS = 12
SEED = 20_231_114


async def test_killed_process_loses_nothing_it_confirmed(tmp_path: Path) -> None:
    """kill -9 at random moments, again and again on the same file."""
    chance = random.Random(SEED)
    path = tmp_path / "store.sqlite3"
    for _ in range(6):
        child = workload.start("run", path)
        assert child.stdout is not None
        assert child.stdout.readline() == "open\n"
        for _ in range(chance.randrange(1, 60)):
            confirmed = int(child.stdout.readline())
        child.kill()
        # What it still said before it died is confirmed too.
        confirmed = max([confirmed, *map(int, child.stdout.read().split())])
        child.communicate()
        store = SqliteStore(path)
        await open_store(store, "test", workload.NOW)
        found = await workload.expect_content(store)
        assert found in (confirmed, confirmed + 1)
        await store.close()


@pytest.fixture
async def crashed(tmp_path: Path) -> Path:
    """A store as a crash leaves it: all commits in the WAL, none in the file."""
    path = tmp_path / "store.sqlite3"
    store = SqliteStore(path)
    await workload.commit_up_to(store, "crashing", COMMITS)
    left = tmp_path / "crashed"
    left.mkdir()
    for name in (path.name, f"{path.name}-wal"):
        shutil.copy(tmp_path / name, left / name)
    await store.close()
    return left / path.name


def _wal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _copy_with(crashed: Path, wal: bytes, folder: Path) -> Path:
    folder.mkdir()
    path = folder / crashed.name
    shutil.copy(crashed, path)
    _wal_of(path).write_bytes(wal)
    return path


async def _found_in_copy(crashed: Path, wal: bytes, folder: Path) -> int:
    """How many commits there are with that WAL; each must be whole."""
    store = SqliteStore(_copy_with(crashed, wal, folder))
    opened = await open_store(store, "after the crash", workload.NOW)
    found = await workload.expect_content(store)
    # And it goes on from there.
    await store.commit(workload.changes_of(found + 1, opened.epoch))
    assert await workload.expect_content(store) == found + 1
    await store.close()
    shutil.rmtree(folder)
    return found


async def test_whole_wal_has_every_commit(crashed: Path, tmp_path: Path) -> None:
    wal = _wal_of(crashed).read_bytes()
    assert await _found_in_copy(crashed, wal, tmp_path / "whole") == COMMITS


async def test_wal_torn_anywhere_has_a_prefix_of_the_commits(
    crashed: Path, tmp_path: Path
) -> None:
    wal = _wal_of(crashed).read_bytes()
    chance = random.Random(SEED)
    offsets = {0, 1, 31, 32, 33, len(wal) - 1}
    offsets.update(chance.randrange(len(wal)) for _ in range(60))
    found = [
        await _found_in_copy(crashed, wal[:offset], tmp_path / str(offset))
        for offset in sorted(offsets)
    ]
    assert found == sorted(found), "a longer WAL has no fewer commits"
    assert found[0] == 0 and found[-1] == COMMITS - 1


async def test_wal_damaged_anywhere_has_a_prefix_of_the_commits(
    crashed: Path, tmp_path: Path
) -> None:
    wal = _wal_of(crashed).read_bytes()
    chance = random.Random(SEED)
    for _ in range(40):
        offset = chance.randrange(len(wal))
        damaged = bytearray(wal)
        damaged[offset] ^= 1 << chance.randrange(8)
        found = await _found_in_copy(crashed, bytes(damaged), tmp_path / str(offset))
        assert 0 <= found <= COMMITS


async def test_wal_that_is_lost_leaves_the_last_checkpoint(
    crashed: Path, tmp_path: Path
) -> None:
    assert await _found_in_copy(crashed, b"", tmp_path / "lost") == 0
