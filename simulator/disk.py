"""What survives a crash: the data of store and catalog.

It is in memory by default. With SQLite files, a crash keeps the files as they are at
that moment; a torn commit cuts off the write-ahead log at some point.
"""

import shutil
from pathlib import Path
from random import Random
from typing import Protocol, final

from simulator.store_check import Content, in_file, in_memory
from twinbus.store.base import Store
from twinbus.store.catalog import Catalog
from twinbus.store.memory import MemoryDisk, MemoryStore
from twinbus.store.memory_catalog import MemoryCatalog
from twinbus.store.sqlite import SqliteStore
from twinbus.store.sqlite_catalog import SqliteCatalog


class Disk(Protocol):
    """Where a bus can be opened again after its process has ended."""

    def store(self) -> Store:
        """A store object for the next process."""

    def catalog(self) -> Catalog:
        """A catalog object for the next process."""

    def mark(self) -> None:
        """A commit begins here."""

    async def crash(self, store: Store, catalog: Catalog, *, torn: bool) -> None:
        """The process that had these open has ended."""

    def content(self) -> Content:
        """The current content."""


@final
class DiskInMemory:
    """Objects that outlive their users."""

    def __init__(self) -> None:
        self._disk = MemoryDisk()
        self._catalog = MemoryCatalog()

    def store(self) -> MemoryStore:
        return MemoryStore(self._disk)

    def catalog(self) -> MemoryCatalog:
        return self._catalog

    def mark(self) -> None:
        """Does nothing: writes to memory are never partial."""

    async def crash(self, store: Store, catalog: Catalog, *, torn: bool) -> None:
        assert isinstance(store, MemoryStore)
        store.abandon()
        await catalog.close()

    def content(self) -> Content:
        return in_memory(self._disk)

    def expropriate(self) -> None:
        """Let another owner take the lease while this one is alive."""
        self._disk.owner = None


@final
class DiskOfFiles:
    """SQLite files; a crash continues with a copy of the files at that moment."""

    def __init__(self, folder: Path, random: Random) -> None:
        self._root = folder
        self._random = random
        self._crash_count = 0
        self._folder = folder / "0"
        self._folder.mkdir()
        self._marked_bytes = 0
        self._marked_note = b""

    def store(self) -> SqliteStore:
        return SqliteStore(self._folder / "bus.sqlite3")

    def catalog(self) -> SqliteCatalog:
        return SqliteCatalog(self._folder / "catalog.sqlite3")

    def _log(self, folder: Path) -> Path:
        return folder / "bus.sqlite3-wal"

    def _note(self, folder: Path) -> Path:
        return folder / "bus.sqlite3-confirmed"

    def mark(self) -> None:
        log = self._log(self._folder)
        self._marked_bytes = log.stat().st_size if log.exists() else 0
        self._marked_note = self._note(self._folder).read_bytes()

    async def crash(self, store: Store, catalog: Catalog, *, torn: bool) -> None:
        assert isinstance(store, SqliteStore)
        self._crash_count += 1
        copy = self._root / str(self._crash_count)
        # Shared memory is lost with the process.
        shutil.copytree(self._folder, copy, ignore=shutil.ignore_patterns("*-shm"))
        if torn:
            self._tear(self._log(copy))
            # A commit is recorded after it happened, so this one was not.
            self._note(copy).write_bytes(self._marked_note)
        store.abandon()
        await catalog.close()
        self._folder = copy

    def content(self) -> Content:
        return in_file(self._folder / "bus.sqlite3")

    def _tear(self, log: Path) -> None:
        size = log.stat().st_size
        if size > self._marked_bytes:
            with log.open("r+b") as file:
                file.truncate(self._random.randint(self._marked_bytes, size))
