"""The row that says who has the lease of a SQLite store.

The row names the owner's process. While that runs, others are refused. If it is dead,
the next one takes over and raises the epoch; after that nothing can be written under
the old epoch. Whether an owner on another host runs cannot be seen: it is replaced, and
the epoch stops it if it runs. In a copy of the file the lease does not count.

Two owners within this process have the same row, so what each owns is remembered
here.
"""

import os
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from twinbus.store.base import StoreInUse, StoreUnreadable
from twinbus.store.process_identity import ProcessIdentity, is_running, this_process
from twinbus.store.sqlite_errors import locked, unreadable
from twinbus.store.sqlite_file import connect_to_read
from twinbus.store.statements import named_statements

_SQL = named_statements("sqlite_store.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenure:
    """What is owned: a file, by device and inode, in one epoch."""

    file: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """What the lease row says of an owner."""

    process: ProcessIdentity
    description: str
    tenure: Tenure

    def is_alive(self) -> bool:
        if self.process == this_process():
            return self.tenure in _owned_here
        return is_running(self.process)


# Joined under the file's write lock only, so two threads cannot both get in.
_owned_here: set[Tenure] = set()


def take_lease(db: sqlite3.Connection, path: Path, owner: str, now: int) -> Tenure:
    """Become the owner, inside the caller's transaction. Raises StoreInUse."""
    epoch = refuse_if_owned(db, path)
    file = _file_id(path)
    me = this_process()
    db.execute(_SQL["take_lease"], (owner, me.pid, me.start, me.host, file, now))
    tenure = Tenure(file=file, epoch=epoch + 1)
    _owned_here.add(tenure)
    return tenure


def refuse_if_owned(db: sqlite3.Connection, path: Path) -> int:
    """The epoch of a store that nobody owns at present. Raises StoreInUse."""
    holder, epoch = _read_lease(db, path)
    is_ours = holder is not None and holder.tenure.file == _file_id(path)
    if holder is not None and is_ours and holder.is_alive():
        raise _in_use(path, holder)
    return epoch


def holder_of(path: Path) -> ProcessIdentity | None:
    """The process that has the lease, whether it runs or not. None if nobody has it,
    or the file cannot be read."""
    if not path.exists():
        return None
    with suppress(sqlite3.Error, StoreUnreadable), closing(connect_to_read(path)) as db:
        holder, _ = _read_lease(db, path)
        return None if holder is None else holder.process
    return None


def store_uuid_of(path: Path) -> bytes | None:
    """Which store is in the file; None if it cannot be read."""
    with suppress(sqlite3.Error, TypeError), closing(connect_to_read(path)) as db:
        found: bytes = db.execute(_SQL["identity"]).fetchone()[0]
        return found
    return None


def forget(tenure: Tenure) -> None:
    """This process does not own it any more."""
    _owned_here.discard(tenure)


def in_use(db: sqlite3.Connection, path: Path) -> StoreInUse:
    """The error for a file that is locked, with its owner if that can be read."""
    try:
        holder, _ = _read_lease(db, path)
    except (sqlite3.Error, StoreUnreadable):
        holder = None
    return locked(path) if holder is None else _in_use(path, holder)


def _read_lease(db: sqlite3.Connection, path: Path) -> tuple[Holder | None, int]:
    """The owner, if there is one, and the epoch. Raises StoreUnreadable."""
    row = db.execute(_SQL["holder"]).fetchone()
    if row is None:
        raise unreadable(path, "its lease is missing")
    owner, pid, start, host, file, epoch = row
    if owner is None:
        return None, epoch
    holder = Holder(
        process=ProcessIdentity(pid=pid, start=start, host=host),
        description=owner,
        tenure=Tenure(file=file, epoch=epoch),
    )
    return holder, epoch


def _in_use(path: Path, holder: Holder) -> StoreInUse:
    return StoreInUse(
        f"The data folder {path.parent} is in use by process {holder.process.pid} "
        f"({holder.description}): stop it or choose another --data."
    )


def _file_id(path: Path) -> str:
    status = os.stat(path)
    return f"{status.st_dev}:{status.st_ino}"
