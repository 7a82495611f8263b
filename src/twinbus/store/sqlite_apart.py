"""The log of a SQLite store that is synced in a thread, beside other stores.

Where one process serves several stores, a disk that hangs must not stop the event
loop. So SQLite itself never syncs on the loop (`synchronous = OFF`): the thread does,
after each commit, and the owner waits for it. Why no power cut can lose what was
confirmed is in docs/decisions/0015-syncs-off-the-loop.md. Its rules:

- A log always begins in a file that is empty, durably: checkpoints truncate it.
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

from twinbus.limits import SYNC_SECONDS
from twinbus.store.base import StoreError
from twinbus.store.sqlite_file import CHECKPOINT_BYTES, connect_to_read, sync_folder
from twinbus.store.sync_thread import SyncThread

_log = logging.getLogger(__name__)

T = TypeVar("T")

_COPY_BYTES: Final = 1024 * 1024


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
        # Why nothing can be done until the lease is taken again; empty: nothing.
        self.trouble = ""

    # --- on the loop ----------------------------------------------------------

    async def run(self, call: Callable[[], T]) -> T:
        """Run this in the thread, however long it takes."""
        busy = self._busy = asyncio.get_running_loop().create_future()
        try:
            return await self._thread.run(call)
        finally:
            busy.set_result(None)
            if self._busy is busy:
                self._busy = None

    async def run_for_a_while(self, call: Callable[[], T]) -> T:
        """The same, but a store that takes too long is given up. Raises StoreError,
        also if the call raised OSError: then what is on disk is not known."""
        self._refuse_in_trouble()
        try:
            async with asyncio.timeout(self._patience_seconds):
                return await self.run(call)
        except TimeoutError as error:
            self.trouble = (
                f"{self._store}: its disk did not answer for "
                f"{self._patience_seconds:g} seconds"
            )
            raise StoreError(f"{self.trouble}.") from error
        except OSError as error:
            self.trouble = f"{self._store} could not be synced: {error}"
            raise StoreError(f"{self.trouble}.") from error

    async def durable(self) -> None:
        """Wait until all that was committed is on disk. Raises StoreError."""
        await self.run_for_a_while(self._sync_log)

    async def settled(self) -> None:
        """Wait until all that can be read is durable, and the connection is there for
        the loop. Raises StoreError."""
        while self._busy is not None:
            await asyncio.shield(self._busy)
        self._refuse_in_trouble()

    def is_long(self) -> bool:
        """It is time to copy the log into the file."""
        return (
            self._descriptor >= 0
            and os.fstat(self._descriptor).st_size >= CHECKPOINT_BYTES
        )

    def _refuse_in_trouble(self) -> None:
        if self.trouble:
            raise StoreError(f"{self.trouble}.")

    async def close_store(self, give_back: Callable[[], None]) -> None:
        """Have the lease given back in the thread. If the disk does not answer, this
        returns all the same, and the lease ends with the process."""
        try:
            async with asyncio.timeout(self._patience_seconds):
                await self.run(give_back)
        except TimeoutError:
            _log.warning("%s is not closed: its disk does not answer", self._store)
        else:
            self._thread.end()

    # --- in the thread --------------------------------------------------------

    def _sync_log(self) -> None:
        self._sync(self._descriptor)

    def begin(self, db: sqlite3.Connection) -> None:
        """The lease was taken. From here on the loop syncs nothing. Raises
        sqlite3.Error, OSError."""
        self._descriptor = os.open(self._path, os.O_RDWR)
        sync_folder(self._store.parent)
        db.execute("PRAGMA wal_autocheckpoint = 0")
        self.copy(db)
        self.trouble = ""

    def copy(self, db: sqlite3.Connection) -> bool:
        """Copy the log into the file, and empty it; False if somebody who reads keeps
        it from that. Raises sqlite3.Error, OSError."""
        db.execute("PRAGMA synchronous = FULL")
        try:
            is_busy, *_ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            is_empty = not is_busy and os.fstat(self._descriptor).st_size == 0
            # It must be empty on disk before anything is written to it again.
            self._sync(self._descriptor)
        except BaseException:
            db.execute("PRAGMA synchronous = NORMAL")
            raise
        # A log that is not empty may be begun in place; then SQLite must sync its new
        # header.
        db.execute(f"PRAGMA synchronous = {'OFF' if is_empty else 'NORMAL'}")
        return is_empty

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
