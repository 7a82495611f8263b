"""The last confirmed commit, noted beside the store, so that a lost end shows.

SQLite takes a write-ahead log that was removed, cut short or damaged for one that
ends there: nothing tells such a store from one to which less was written. So the
number of each commit is also written to a small file next to it, after the commit and
without a sync of its own. The file survives `kill -9`; a power cut may leave it
older than the store, never newer, and older says nothing. Newer means: commits
that were confirmed are gone.

    "twbuconf", store uuid, schema version, epoch, batch, check sum

Newer is judged within an epoch: the owner's first act is to have its epoch in the
store's main file, where no loss of the log reaches it. A store of an earlier epoch is
an older copy that was put back on purpose, and so is one with another schema
version: SQLite gives its copies (VACUUM INTO, .backup) another one than the original.

Trouble with this file never stops the bus; it is logged once.
"""

import logging
import os
import sqlite3
import struct
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from twinbus.store.base import CommitsLost
from twinbus.store.statements import named_statements

_log = logging.getLogger(__name__)

_SQL: Final = named_statements("sqlite_store.sql")
_MAGIC: Final = b"twbuconf"
_HEAD: Final = struct.Struct("<8s16sqq")
_BATCH: Final = struct.Struct("<q")
_CHECK_SUM: Final = struct.Struct("<I")
_RECORD_BYTES: Final = _HEAD.size + _BATCH.size + _CHECK_SUM.size

_FILE_BYTES: Final = 512
"""Written at the start, so that noting a commit needs no room: a sector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """Which commit of which store."""

    store_uuid: bytes
    schema_version: int
    epoch: int
    batch: int


def confirmed_path(store: Path) -> Path:
    """Where the confirmed commits of a store are noted."""
    return store.with_name(f"{store.name}-confirmed")


def read_confirmation(store: Path) -> Confirmation | None:
    """What was noted last; None if nothing was, or if it cannot be read."""
    path = confirmed_path(store)
    try:
        content = path.read_bytes()[:_RECORD_BYTES]
    except FileNotFoundError:
        return None
    except OSError as error:
        _log.warning("%s can't be read: %s", path, error)
        return None
    body, check_sum = content[: -_CHECK_SUM.size], content[-_CHECK_SUM.size :]
    if len(content) < _RECORD_BYTES or _sum_of(body) != check_sum:
        _log.warning(
            "%s is damaged, so whether the end of %s is there can't be told",
            path,
            store,
        )
        return None
    magic, store_uuid, schema_version, epoch = _HEAD.unpack_from(body)
    if magic != _MAGIC:
        return None
    return Confirmation(
        store_uuid=store_uuid,
        schema_version=schema_version,
        epoch=epoch,
        batch=_BATCH.unpack_from(body, _HEAD.size)[0],
    )


def found_in(db: sqlite3.Connection) -> Confirmation | None:
    """The last commit that the store itself has; None if it can't say. Raises
    sqlite3.Error."""
    row = db.execute(_SQL["identity"]).fetchone()
    if row is None:
        return None
    store_uuid, epoch, batch = row
    return Confirmation(
        store_uuid=store_uuid,
        schema_version=schema_version(db),
        epoch=epoch,
        batch=batch,
    )


def schema_version(db: sqlite3.Connection) -> int:
    """SQLite's own, not our format."""
    version: int = db.execute("PRAGMA schema_version").fetchone()[0]
    return version


def is_lost(confirmed: Confirmation, found: Confirmation) -> bool:
    """The store lacks commits that were confirmed, and is no older copy."""
    return (
        confirmed.store_uuid == found.store_uuid
        and confirmed.epoch == found.epoch
        and confirmed.schema_version == found.schema_version
        and confirmed.batch > found.batch
    )


def refuse_lost_tail(
    store: Path, confirmed: Confirmation | None, found: Confirmation
) -> None:
    """Raises CommitsLost if the store lacks what was confirmed; says in the log if
    that can't be told, or if it is an older copy."""
    path = confirmed_path(store)
    if confirmed is None:
        if found.batch > 0:
            _log.warning(
                "%s is missing, so whether the end of %s is there can't be told this "
                "time; it is made now",
                *(path, store),
            )
    elif confirmed.store_uuid != found.store_uuid:
        _log.warning("%s is of another store than %s; it is written again", path, store)
    elif is_lost(confirmed, found):
        raise commits_lost(store, confirmed, found)
    elif (confirmed.epoch, confirmed.batch) > (found.epoch, found.batch):
        _log.warning(
            "%s is an older copy: its last commit is %d, of epoch %d, and commit %d "
            "of epoch %d was confirmed here; what happened in between is not in it",
            *(store, found.batch, found.epoch, confirmed.batch, confirmed.epoch),
        )


def commits_lost(
    store: Path, confirmed: Confirmation, found: Confirmation
) -> CommitsLost:
    """A refusal that says what is gone, and how to go on."""
    return CommitsLost(
        f"{store} has lost its end: commit {confirmed.batch} was confirmed, the last "
        f"one found is {found.batch}, so {confirmed.batch - found.batch} commits are "
        f"gone, with all that they sent and settled. Its log {store.name}-wal was "
        "removed, cut short or damaged: put it back, or restore a backup of the data "
        "folder. To go on without what is gone, run 'twinbus check --accept-loss' "
        "with the same --data or --store."
    )


def refuse_lost_store(store: Path, confirmed: Confirmation | None) -> None:
    """Raises CommitsLost: the file itself is gone, and was more than a beginning."""
    if confirmed is not None and confirmed.batch > 0:
        raise CommitsLost(
            f"{store} is missing, in which commit {confirmed.batch} was confirmed. Put "
            "it back, with its -wal file if it has one, or restore a backup of the "
            "data folder. To begin with an empty one, run 'twinbus check "
            "--accept-loss' with the same --data or --store."
        )


@final
class ConfirmedFile:
    """Where an owner notes its commits, from taking the lease to giving it back."""

    def __init__(self, store: Path, found: Confirmation) -> None:
        self._path = confirmed_path(store)
        self._head = _HEAD.pack(
            _MAGIC, found.store_uuid, found.schema_version, found.epoch
        )
        self._head_sum = zlib.crc32(self._head)
        # -1: it can't be written, which has been logged.
        self._descriptor = -1
        try:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            record = self._record(found.batch)
            os.pwrite(self._descriptor, record.ljust(_FILE_BYTES, b"\0"), 0)
            os.fsync(self._descriptor)
        except OSError as error:
            self._give_up(error)

    def _record(self, batch: int) -> bytes:
        number = _BATCH.pack(batch)
        check_sum = _CHECK_SUM.pack(zlib.crc32(number, self._head_sum))
        return self._head + number + check_sum

    def note(self, batch: int) -> None:
        """The commit is durable."""
        if self._descriptor < 0:
            return
        try:
            os.pwrite(self._descriptor, self._record(batch), 0)
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        _log.warning(
            "%s can't be written (%s): until the next start a lost end of the store "
            "would not show",
            *(self._path, error),
        )
        self.close()

    def close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            with suppress(OSError):
                os.close(descriptor)


def accept_loss(store: Path, found: Confirmation | None) -> None:
    """Note that the store is to be taken as it is; None: that there is none."""
    if found is None:
        confirmed_path(store).unlink(missing_ok=True)
        return
    ConfirmedFile(store, found).close()


def _sum_of(body: bytes) -> bytes:
    return _CHECK_SUM.pack(zlib.crc32(body))
