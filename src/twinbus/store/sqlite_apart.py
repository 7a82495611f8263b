"""The log of a SQLite store that is synced in a thread, beside other stores.

Where one process serves several stores, a disk that hangs must not stop the event
loop. So SQLite itself never syncs on the loop (`synchronous = OFF`): the thread does,
after each commit, and the owner waits for it. Why no power cut can lose what was
confirmed is in docs/decisions/0015-syncs-off-the-loop.md. Its rules:

- A log begins in an empty file, or over a log that was copied: then SQLite syncs its
  header, in the thread, before anything else is written over the old one.
- While the thread has the connection, the loop does not use it.
- After a sync that failed, or took too long, nothing is done before the lease was
  taken again. That writes what the log holds once more, because the kernel forgets
  what it could not write.

Where there is one store it is synced on the loop, and none of this is used.
"""

import asyncio
import logging
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final, TypeVar, final

from twinbus.clock import SystemClock
from twinbus.limits import SYNC_SECONDS
from twinbus.store.base import StoreError
from twinbus.store.sqlite_file import CHECKPOINT_BYTES, connect_to_read, sync_folder
from twinbus.store.sync_thread import SyncThread

_log = logging.getLogger(__name__)

T = TypeVar("T")

_COPY_BYTES: Final = 1024 * 1024

_CLOCK: Final = SystemClock()
_MOMENT_MS: Final = 1
"""A small commit is waited for on the loop, for as long, if the last sync took no
longer: one message on an idle queue is delivered sooner. A disk that begins to hang
costs other stores a millisecond.
"""

_READER_MS: Final = 1_000
"""After a reader kept the log from being begun anew, it is tried again so much later:
each try copies what it can, and commits wait for it."""

# Of the format of a log: https://sqlite.org/walformat.html
_HEADER_BYTES: Final = 32
_PAGE_SIZE: Final = slice(8, 12)
_SALTS: Final = slice(16, 24)
_FRAME_HEADER_BYTES: Final = 24
_FRAME_SALTS: Final = slice(8, 16)


@final
class ApartLog:
    """Of one store; belongs to its owner."""

    def __init__(
        self,
        store: Path,
        sync: Callable[[int], None] = os.fdatasync,
        patience_seconds: float = SYNC_SECONDS,
    ) -> None:
        self._store = store
        self._path = store.with_name(f"{store.name}-wal")
        self._sync = sync
        self._patience_seconds = patience_seconds
        self._thread = SyncThread(f"syncs {store.name}")
        # The log, while the lease is held.
        self._descriptor = -1
        # Done when the thread has finished; None: it has nothing to do.
        self._busy: asyncio.Future[None] | None = None
        # Of the last commit.
        self._sync_ms = 0
        # It is time to copy the log into the file.
        self.is_long = False
        # Somebody reads from it, a backup for example: until then it grows.
        self._grows_until = 0
        # Why nothing can be done until the lease is taken again; empty: nothing.
        self.trouble = ""

    # --- on the loop ----------------------------------------------------------

    async def run(
        self,
        call: Callable[[], T],
        patience_seconds: float | None = None,
        moment_seconds: float = 0.0,
    ) -> T:
        """Run this in the thread. Raises TimeoutError; without patience it waits
        however long it takes."""
        busy = self._busy = asyncio.get_running_loop().create_future()
        try:
            return await self._thread.run(call, patience_seconds, moment_seconds)
        finally:
            busy.set_result(None)
            if self._busy is busy:
                self._busy = None

    async def run_for_a_while(
        self, call: Callable[[], T], moment_seconds: float = 0.0
    ) -> T:
        """The same, but a store that takes too long is given up. Raises StoreError,
        also if the call raised OSError: then what is on disk is not known."""
        self._refuse_in_trouble()
        try:
            return await self.run(call, self._patience_seconds, moment_seconds)
        except TimeoutError as error:
            self.trouble = (
                f"{self._store}: its disk did not answer for "
                f"{self._patience_seconds:g} seconds"
            )
            raise StoreError(f"{self.trouble}.") from error
        except OSError as error:
            self.trouble = f"{self._store} could not be synced: {error}"
            raise StoreError(f"{self.trouble}.") from error

    async def durable(self, *, is_small: bool) -> None:
        """Wait until all that was committed is on disk. Raises StoreError."""
        is_brief = is_small and self._sync_ms <= _MOMENT_MS
        moment_ms = _MOMENT_MS if is_brief else 0
        await self.run_for_a_while(self._sync_log, moment_ms / 1000)

    async def settled(self) -> None:
        """Wait until all that can be read is durable, and the connection is there for
        the loop. Raises StoreError."""
        while self._busy is not None:
            await asyncio.shield(self._busy)
        self._refuse_in_trouble()

    def _refuse_in_trouble(self) -> None:
        if self.trouble:
            raise StoreError(f"{self.trouble}.")

    async def close_store(self, give_back: Callable[[], None]) -> None:
        """Have the lease given back in the thread. If the disk does not answer, this
        returns all the same, and the lease ends with the process."""
        try:
            await self.run(give_back, self._patience_seconds)
        except TimeoutError:
            _log.warning("%s is not closed: its disk does not answer", self._store)
        else:
            self._thread.end()

    # --- in the thread --------------------------------------------------------

    def _sync_log(self) -> None:
        began = _CLOCK.monotonic()
        self._sync(self._descriptor)
        self._sync_ms = _CLOCK.monotonic() - began
        # Not on the loop: a page of an older log may have to be read from disk.
        self.is_long = _CLOCK.monotonic() >= self._grows_until and self._has_grown()

    def _has_grown(self) -> bool:
        """It has so many frames that it should be copied. The file may be longer than
        the log, with frames of an older one: those have other salts."""
        header = os.pread(self._descriptor, _HEADER_BYTES, 0)
        if len(header) < _HEADER_BYTES:
            return False
        frame_bytes = _FRAME_HEADER_BYTES + int.from_bytes(header[_PAGE_SIZE])
        before = CHECKPOINT_BYTES // frame_bytes * frame_bytes
        frame = os.pread(self._descriptor, _FRAME_HEADER_BYTES, _HEADER_BYTES + before)
        return frame[_FRAME_SALTS] == header[_SALTS]

    def begin(self, db: sqlite3.Connection) -> None:
        """The lease was taken. From here on the loop syncs nothing. Raises
        sqlite3.Error, OSError."""
        self._descriptor = os.open(self._path, os.O_RDWR)
        sync_folder(self._store.parent)
        db.execute("PRAGMA wal_autocheckpoint = 0")
        self.copy(db)
        self.trouble = ""

    def copy(self, db: sqlite3.Connection) -> bool:
        """Copy the log into the file, and begin it anew; False if somebody who reads
        keeps it from that. Raises sqlite3.Error, OSError."""
        db.execute("PRAGMA synchronous = FULL")
        (busy_ms,) = db.execute("PRAGMA busy_timeout").fetchone()
        # Commits would wait with it for a reader that takes its time.
        db.execute("PRAGMA busy_timeout = 0")
        try:
            is_busy, *_ = db.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
            is_begun = not is_busy and self._begin_anew(db)
        except BaseException:
            db.execute("PRAGMA synchronous = NORMAL")
            raise
        finally:
            db.execute(f"PRAGMA busy_timeout = {busy_ms}")
        self._grows_until = 0 if is_begun else _CLOCK.monotonic() + _READER_MS
        # A log that SQLite has yet to begin over the old one needs a sync of its
        # header.
        db.execute(f"PRAGMA synchronous = {'OFF' if is_begun else 'NORMAL'}")
        self.is_long = False
        return is_begun

    def _begin_anew(self, db: sqlite3.Connection) -> bool:
        """Have a header with new salts on disk, by a commit that changes nothing. It is
        written over the old log: a file that grows takes longer to sync."""
        before = self._salts()
        if not before:
            # It must be empty on disk, too, before anything is written to it.
            self._sync(self._descriptor)
            return True
        db.execute("PRAGMA user_version = 0")
        return self._salts() != before

    def _salts(self) -> bytes:
        """Empty if the log is."""
        return os.pread(self._descriptor, _HEADER_BYTES, 0)[_SALTS]

    def write_again(self) -> None:
        """Inside a transaction, before its commit: have on disk what the log seems to
        hold. Raises OSError."""
        descriptor = os.open(self._path, os.O_RDWR)
        try:
            offset = 0
            while portion := os.pread(descriptor, _COPY_BYTES, offset):
                os.pwrite(descriptor, portion, offset)
                offset += len(portion)
            self._sync(descriptor)
        finally:
            os.close(descriptor)

    def close(self, db: sqlite3.Connection) -> None:
        """Close the connection. After trouble the log stays as it is; otherwise it is
        copied, synced and removed."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if not self.trouble:
            db.execute("PRAGMA synchronous = FULL")
            db.close()
            return
        # The last connection to close copies the log, unless it only reads.
        with closing(connect_to_read(self._store)) as reader:
            reader.execute("SELECT count(*) FROM sqlite_master").fetchone()
            db.close()
