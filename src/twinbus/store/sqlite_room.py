"""Room for the store on its disk, and the reserve that lets a full one be drained.

To settle a message takes room, too: the removal is written to the log, and what the
log holds must be copied into the file, which grows by what was sent. Room that runs
out under senders is missing to those who would make some. So:

- **A reserve** lies beside the store, a file of real blocks: as much as copying the log
  would make the file grow, and what removals need in the log. It is given up when a
  commit finds no room, which then is tried again.
- **Senders are stopped before it is touched**: `left` says how much may still be added.
  What is removed leaves unused pages in the file, which does not shrink; they are
  room as well, without any on the disk.
- **While room is tight** the log is copied after every commit, so that it can be
  written over instead of growing; and pages that become free are not written with
  zeros, which some builds of SQLite do and which makes removals many times larger.

Reading the figures takes some microseconds, so it is done once for many commits.
"""

import logging
import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from twinbus.broker.fragment_settings import NO_LIMIT

_log = logging.getLogger(__name__)

_KILOBYTE: Final = 1024
_MEGABYTE: Final = 1024 * _KILOBYTE

_PLENTY: Final = 64 * _MEGABYTE
"""With this much space left no sender is stopped: as much as can be pending at once."""

_STEP: Final = 512 * _KILOBYTE
"""Added between two looks, while there is plenty."""

_REMOVAL: Final = 4 * _MEGABYTE
"""What commits that remove may need in the log: 250 pages."""

_SHARE: Final = 8
"""But on a small disk at most this part of it."""

_MARGIN: Final = 256 * _KILOBYTE
"""Never counted as room: pages that split, shared memory, the file system's own."""

_SMALLEST: Final = 64 * _KILOBYTE
"""Less space than this counts as none."""

_COST: Final = 3
"""What is added needs so many times its size: in the log, in the file, and for pages
that are not filled."""

_SECURE_DELETE: Final = ("OFF", "ON", "FAST")
"""As SQLite numbers them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figures:
    """How much space there is, in bytes."""

    # On the disk, for us, and all in all.
    free: int
    total: int
    # What the file has, and what of that is unused.
    held: int
    unused: int
    # By so much copying the log will make the file grow.
    growth: int
    # The log as a file: it is written over when it has been copied.
    log: int


@final
class Room:
    """What a store may still take in; belongs to its owner."""

    def __init__(
        self, store: Path, copy_log: Callable[[sqlite3.Connection], bool] | None = None
    ) -> None:
        self._store = store
        # Copies the log into the file; True if it can be written over then. Raises
        # sqlite3.Error, OSError.
        self._copies_log = copy_log or _copy_log
        self._reserve = store.with_name(f"{store.name}-reserve")
        self._reserve_bytes = 0
        self._left = NO_LIMIT
        # So much may be added before the figures are read again.
        self._until_look = 0
        # Room is scarce: look, and copy the log, after every commit.
        self._is_tight = False
        # How SQLite was built to treat pages that become free.
        self._secure_delete = 0

    def begin(self) -> None:
        """The store is being opened."""
        with suppress(OSError):
            self._reserve_bytes = self._reserve.stat().st_size
        self._until_look = 0
        self._is_tight = False

    def end(self) -> None:
        """The store is being closed: the reserve is not needed any more."""
        self._reserve_bytes = 0
        with suppress(OSError):
            self._reserve.unlink()

    def added(self, size_bytes: int) -> None:
        """So much was committed."""
        self._until_look -= size_bytes

    def must_look(self) -> bool:
        """The last figures do not hold any more."""
        return self._until_look <= 0 or self._is_tight

    def left(self, db: sqlite3.Connection) -> int:
        """Bytes of messages that may be added before this is asked again."""
        if self.must_look():
            try:
                self._look(db)
            except (OSError, sqlite3.Error) as error:
                # The next commit will tell.
                _log.debug("how much room there is can't be told: %s", error)
                self._left, self._until_look = NO_LIMIT, _STEP
        return self._left

    def make(self, db: sqlite3.Connection | None) -> bool:
        """A commit found no room: give the reserve up, and let the log be written
        over. False if that makes none."""
        had_reserve = self._release()
        self._until_look = 0
        if db is None:
            return had_reserve
        self._tighten(db, is_tight=True)
        return self._copy_log(db) or had_reserve

    def _copy_log(self, db: sqlite3.Connection) -> bool:
        try:
            return self._copies_log(db)
        except sqlite3.Error:
            return False

    def _tighten(self, db: sqlite3.Connection, *, is_tight: bool) -> None:
        if is_tight == self._is_tight:
            return
        self._is_tight = is_tight
        if is_tight:
            (self._secure_delete,) = db.execute("PRAGMA secure_delete").fetchone()
            db.execute("PRAGMA secure_delete = FAST")
        else:
            db.execute(f"PRAGMA secure_delete = {_SECURE_DELETE[self._secure_delete]}")

    # --- looking --------------------------------------------------------------

    def _look(self, db: sqlite3.Connection) -> None:
        figures = self._measured(db)
        spare = self._spare(figures)
        self._tighten(db, is_tight=spare < _PLENTY)
        if self._is_tight:
            self._copy_log(db)
            figures = self._measured(db)
            spare = self._spare(figures)
        in_log = figures.log + figures.free + self._reserve_bytes
        in_pages = min(figures.unused, in_log) - _MARGIN
        left = max(spare, in_pages) // _COST
        self._left = left if left >= _SMALLEST else 0
        self._until_look = min(self._left, _STEP)
        wanted = self._needed(figures)
        if not self._is_tight:
            wanted += _COST * _STEP
        elif in_pages > spare:
            # The log may have of the reserve what it lacks: it stays the log's, and
            # is there for removals just as well.
            lacking = 2 * self._left - figures.log - figures.free
            wanted = max(0, wanted - max(0, lacking))
        self._keep(wanted, figures.free)

    def _measured(self, db: sqlite3.Connection) -> _Figures:
        disk = os.statvfs(self._store.parent)
        page_bytes = db.execute("PRAGMA page_size").fetchone()[0]
        held = page_bytes * db.execute("PRAGMA page_count").fetchone()[0]
        unused = page_bytes * db.execute("PRAGMA freelist_count").fetchone()[0]
        return _Figures(
            free=disk.f_bavail * disk.f_frsize,
            total=disk.f_blocks * disk.f_frsize,
            held=held,
            unused=unused,
            growth=max(0, held - self._store.stat().st_size),
            log=_size_of(self._store.with_name(f"{self._store.name}-wal")),
        )

    def _needed(self, figures: _Figures) -> int:
        """What draining takes: a removal touches no more pages than there are, and
        the log's own room can be used again."""
        in_log = min(_REMOVAL, figures.held, figures.total // _SHARE)
        return figures.growth + max(0, in_log - figures.log) + _MARGIN

    def _spare(self, figures: _Figures) -> int:
        return figures.free + self._reserve_bytes - self._needed(figures)

    # --- the reserve ----------------------------------------------------------

    def _keep(self, size_bytes: int, free: int) -> None:
        """Have a reserve of that size, as far as there is room for it. One that is
        too large is only cut while room is tight."""
        wanted = size_bytes - self._reserve_bytes
        if wanted == 0 or (wanted < 0 and not self._is_tight):
            return
        if wanted > free:
            return
        try:
            descriptor = os.open(self._reserve, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                _resize(descriptor, self._reserve_bytes, size_bytes)
            finally:
                os.close(descriptor)
            self._reserve_bytes = size_bytes
        except OSError as error:
            _log.debug("%s can't be made larger: %s", self._reserve, error)

    def _release(self) -> bool:
        had_reserve = self._reserve_bytes > 0
        self._reserve_bytes = 0
        with suppress(OSError):
            os.truncate(self._reserve, 0)
        return had_reserve


def _resize(descriptor: int, size_bytes: int, new_bytes: int) -> None:
    """Raises OSError, with the file as it was."""
    if new_bytes < size_bytes:
        os.ftruncate(descriptor, new_bytes)
        return
    try:
        _allocate(descriptor, size_bytes, new_bytes - size_bytes)
    except OSError:
        os.ftruncate(descriptor, size_bytes)
        raise


def _allocate(descriptor: int, offset: int, count: int) -> None:
    """Real blocks: a file with holes reserves nothing."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, offset, count)
    else:
        os.pwrite(descriptor, bytes(count), offset)


def _size_of(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _copy_log(db: sqlite3.Connection) -> bool:
    is_busy, in_log, copied = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    return not is_busy and in_log == copied
