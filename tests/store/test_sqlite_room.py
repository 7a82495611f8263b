"""A small disk: senders are refused in time, removals always succeed."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from small_disk import small_disk

from twinbus.broker.changes import ChangeSet
from twinbus.broker.message import restored_message
from twinbus.broker.row_id import base_of
from twinbus.store.base import StoreFull
from twinbus.store.opening import open_store
from twinbus.store.sqlite import SqliteStore

from . import workload

FRAGMENT = 5
BODY = 20_000


@pytest.fixture(name="small_disk")
def _small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of eight megabytes."""
    with small_disk(tmp_path / "disk", megabytes=8) as folder:
        yield folder


def take_all(disk: Path) -> None:
    """Another program writes until there is no room."""
    with (disk / "ballast").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


class Queue:
    """Commits of one fragment: so many sent, so many removed."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self._epoch = self._batch = 0
        self.sent = self.removed = 0

    async def open(self) -> None:
        opened = await open_store(self.store, "test", workload.NOW)
        self._epoch, self._batch = opened.epoch, opened.last_batch

    async def send(self, count: int = 1) -> None:
        changes = ChangeSet()
        for _ in range(count):
            self.sent += 1
            row_id = base_of(FRAGMENT) + self.sent
            message = restored_message(row_id, bytes(BODY), 7, 1, 0, 0, 0, 0, None)
            changes.active_added.append(message)
            changes.pending_bytes += BODY
        await self._commit(changes)

    async def remove(self, count: int) -> None:
        changes = ChangeSet()
        for _ in range(count):
            self.removed += 1
            changes.active_removed.append(base_of(FRAGMENT) + self.removed)
        await self._commit(changes)

    async def _commit(self, changes: ChangeSet) -> None:
        changes.seal(self._epoch, self._batch + 1, workload.NOW)
        await self.store.commit(changes)
        self._batch += 1

    async def fill(self) -> None:
        """Send as long as the store says that it may be."""
        while await self.store.room() > BODY:
            await self.send()
        assert self.sent > 100

    async def drain(self) -> None:
        while self.removed < self.sent:
            await self.remove(min(50, self.sent - self.removed))
        assert await self.store.read_active(FRAGMENT, 0, 1, 1) == []


@pytest.fixture
async def queue(small_disk: Path) -> Queue:
    queue = Queue(SqliteStore(small_disk / "store.sqlite3"))
    await queue.open()
    return queue


async def test_senders_are_stopped_before_a_commit_fails(queue: Queue) -> None:
    """Again and again, though the file never shrinks."""
    for _ in range(3):
        await queue.fill()
        await queue.drain()
        assert await queue.store.room() > BODY, "what was removed is room"
    await queue.store.close()


async def test_full_disk_of_others_is_drained(queue: Queue, small_disk: Path) -> None:
    await queue.fill()
    take_all(small_disk)
    await queue.drain()
    assert await queue.store.room() > BODY
    await queue.send()
    await queue.store.close()


async def test_disk_that_is_filled_suddenly_is_drained(
    queue: Queue, small_disk: Path
) -> None:
    """Nobody was stopped before, and the log has not been copied yet."""
    for _ in range(40):
        await queue.send(2)
        assert await queue.store.room() > 2 * BODY
    take_all(small_disk)
    await queue.drain()
    await queue.store.close()


async def test_reserve_is_made_of_real_blocks(queue: Queue, small_disk: Path) -> None:
    await queue.store.room()
    reserve = os.stat(small_disk / "store.sqlite3-reserve")
    assert reserve.st_size >= 256 * 1024
    assert reserve.st_blocks * 512 >= reserve.st_size
    await queue.store.close()
    assert "store.sqlite3-reserve" not in os.listdir(small_disk)


async def test_reserve_of_a_killed_owner_helps_its_successor(
    queue: Queue, small_disk: Path
) -> None:
    await queue.fill()
    queue.store.abandon()
    take_all(small_disk)
    with pytest.raises(OSError, match="No space"):
        (small_disk / "more").write_bytes(bytes(4096))
    await queue.open()
    await queue.drain()
    await queue.store.close()


async def test_without_a_reserve_the_commit_is_refused_whole(
    queue: Queue, small_disk: Path
) -> None:
    await queue.fill()
    take_all(small_disk)
    with pytest.raises(StoreFull):
        await queue.send(100)
    queue.sent -= 100
    await queue.drain()
    await queue.store.close()
