"""A power cut while syncs are apart: what was confirmed is there, and nothing is torn.

Between two syncs the disk may have written any part of what was handed to it, in any
order. So each sync is a moment at which files are put together as a cut might leave
them: sector by sector, from what was durable before and from what was written since.
Each of them must open, with every commit that was confirmed by then.
"""

import os
import random
import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path

import pytest

from twinbus.store import sqlite_apart
from twinbus.store.base import CommitsLost, StoreError
from twinbus.store.opening import open_store
from twinbus.store.sqlite import SqliteStore
from twinbus.store.sqlite_apart import ApartLog

from . import workload

SECTOR = 512
LOG_HEADER = 32
FRAME = 24 + 16_384
COMMITS = 14
CUTS = 4
"""At each sync."""

COPY = ApartLog.copy


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The files after a power cut, and the last commit confirmed before it."""

    main: bytes
    log: bytes
    noted: bytes
    confirmed: int


def mixed(before: bytes, after: bytes, chance: random.Random) -> bytes:
    """Each sector as it was, or as it was written; the file may be shorter. Half of the
    time all sectors up to some point are as they were."""
    share = chance.choice((0.0, 0.1, 0.5, 0.9, 1.0))
    longest = max(len(before), len(after))
    end = chance.randrange(min(len(before), len(after)), longest + 1)
    old_until = chance.randrange(longest + 1) if chance.random() < 0.5 else 0
    made = bytearray()
    for at in range(0, end, SECTOR):
        is_new = at >= old_until and chance.random() < share
        source = after if is_new else before
        made += source[at : at + SECTOR].ljust(min(SECTOR, end - at), b"\0")
    return bytes(made)


class Disk:
    """Stands where `fdatasync` does, and notes what a cut could leave behind."""

    def __init__(self, store: Path, chance: random.Random) -> None:
        self._main = store
        self._log = store.with_name(f"{store.name}-wal")
        self._noted = store.with_name(f"{store.name}-confirmed")
        self._chance = chance
        self._durable_main = b""
        self._durable_log = b""
        self.confirmed = 0
        self.copied_count = 0
        self.cuts: list[Cut] = []

    def sync(self, descriptor: int) -> None:
        main, log = self._main.read_bytes(), self._log.read_bytes()
        for _ in range(CUTS):
            self._cut(main, mixed(self._durable_log, log, self._chance))
        self._cut_overwritten(main, log)
        os.fdatasync(descriptor)
        self._durable_main, self._durable_log = main, log

    def copy(self, log: ApartLog, db: sqlite3.Connection) -> bool:
        """Stands where the log is copied: SQLite syncs there by itself."""
        is_begun = COPY(log, db)
        if self._durable_main:
            assert is_begun
            self._cut_in_checkpoint(self._main.read_bytes(), self._log.read_bytes())
        self._durable_main = self._main.read_bytes()
        self._durable_log = self._log.read_bytes()
        self.copied_count += 1
        return is_begun

    def _cut_overwritten(self, main: bytes, log: bytes) -> None:
        """A log that was written over: new frames may be there before the first."""
        before = self._durable_log
        if log.startswith(before):
            return
        for at in range(LOG_HEADER, min(len(before), len(log)), FRAME):
            self._cut(main, before[:at] + log[at:] + before[len(log) :])

    def _cut_in_checkpoint(self, main: bytes, log: bytes) -> None:
        """SQLite has synced the log, written to the main file, synced that, written a
        new header over the old one, synced that, and written and synced a frame."""
        for _ in range(CUTS):
            torn = mixed(self._durable_main, main, self._chance)
            torn += main[len(torn) :] if self._chance.random() < 0.5 else b""
            self._cut(torn.ljust(len(self._durable_main), b"\0"), self._durable_log)
        self._cut(main, self._durable_log)
        begun = log[:LOG_HEADER] + self._durable_log[LOG_HEADER:]
        assert begun != self._durable_log
        self._cut(main, begun)
        for _ in range(CUTS):
            self._cut(main, mixed(begun, log, self._chance))

    def _cut(self, main: bytes, log: bytes) -> None:
        noted = self._noted.read_bytes() if self._noted.exists() else b""
        self.cuts.append(Cut(main=main, log=log, noted=noted, confirmed=self.confirmed))


async def cuts_of(disk: Disk, path: Path) -> list[Cut]:
    store = SqliteStore(path, ApartLog(path, disk.sync))
    opened = await open_store(store, "cut", workload.NOW)
    for number in range(1, COMMITS + 1):
        await store.commit(workload.changes_of(number, opened.epoch))
        disk.confirmed = number
    await store.close()
    return [cut for cut in disk.cuts if cut.confirmed > 0]


def laid_out(cut: Cut, folder: Path) -> Path:
    folder.mkdir()
    path = folder / "store.sqlite3"
    path.write_bytes(cut.main)
    path.with_name("store.sqlite3-wal").write_bytes(cut.log)
    path.with_name("store.sqlite3-confirmed").write_bytes(cut.noted)
    return path


async def found_after(cut: Cut, folder: Path) -> int:
    """How many commits there are. Raises if one is not whole."""
    store = SqliteStore(laid_out(cut, folder))
    opened = await open_store(store, "after the cut", workload.NOW)
    try:
        found = await workload.expect_content(store)
        await store.commit(workload.changes_of(found + 1, opened.epoch))
        assert await workload.expect_content(store) == found + 1
    finally:
        await store.close()
        shutil.rmtree(folder)
    return found


@pytest.fixture(autouse=True)
def _many_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_apart, "CHECKPOINT_BYTES", 400_000)


@pytest.mark.parametrize("seed", range(3))
async def test_everything_confirmed_survives_a_power_cut(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.sqlite3"
    disk = Disk(path, random.Random(seed))
    monkeypatch.setattr(ApartLog, "copy", lambda log, db: disk.copy(log, db))
    cuts = await cuts_of(disk, path)
    assert disk.copied_count > 2
    for number, cut in enumerate(cuts):
        found = await found_after(cut, tmp_path / f"cut-{number}")
        assert found in (cut.confirmed, cut.confirmed + 1)


async def test_a_log_that_begins_without_a_sync_would_be_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mistake that the commit after a copy is there for."""
    monkeypatch.setattr(ApartLog, "_begin_anew", lambda log, db: True)
    troubles = 0
    for seed in range(3):
        path = tmp_path / f"{seed}.sqlite3"
        cuts = await cuts_of(Disk(path, random.Random(seed)), path)
        for number, cut in enumerate(cuts):
            try:
                found = await found_after(cut, tmp_path / f"cut-{seed}-{number}")
            except (AssertionError, StoreError, CommitsLost):
                troubles += 1
            else:
                troubles += found < cut.confirmed
    assert troubles > 0
