"""The lease of a SQLite store: one owner at a time, on one host (D4).

The row names the owner's process. A live one keeps the store; a dead one's lease
is taken over by raising the epoch, after which nothing that was begun under the
old epoch can be written any more. An owner on another host cannot be asked; its
lease is taken over too, and the epoch alone stops it if it lives.

Within this process the row cannot tell two owners apart, so open files are
remembered here.
"""

import os
import sqlite3
from pathlib import Path

from twinbus.store.base import StoreInUse
from twinbus.store.process_identity import ProcessIdentity, is_running, this_process
from twinbus.store.sqlite_errors import locked
from twinbus.store.statements import named_statements

_SQL = named_statements("sqlite_store.sql")

# Device and inode, which name a file whatever its path, and an epoch.
Tenure = tuple[int, int, int]
# A process, and how it described itself.
Holder = tuple[ProcessIdentity, str]

# What this process owns. Joined under the file's write lock only, so two threads
# cannot both get in.
_owned_here: set[Tenure] = set()


def take_lease(db: sqlite3.Connection, path: Path, owner: str, now: int) -> Tenure:
    """Become the owner, inside the caller's transaction. Raises StoreInUse.

    Returns what `forget` wants.
    """
    holder = _holder(db)
    me = this_process()
    if holder is not None:
        process, _ = holder
        is_here = process == me
        if _tenure(db, path) in _owned_here if is_here else is_running(process):
            raise _in_use(path, holder)
    db.execute(_SQL["take_lease"], (owner, me.pid, me.start, me.host, now))
    tenure = _tenure(db, path)
    _owned_here.add(tenure)
    return tenure


def forget(tenure: Tenure) -> None:
    """This process does not own the store any more."""
    _owned_here.discard(tenure)


def in_use(db: sqlite3.Connection, path: Path) -> StoreInUse:
    """Why the file is locked, as far as it can be found out."""
    try:
        holder = _holder(db)
    except sqlite3.Error:
        holder = None
    return locked(path) if holder is None else _in_use(path, holder)


def _holder(db: sqlite3.Connection) -> Holder | None:
    owner, pid, start, host = db.execute(_SQL["holder"]).fetchone()
    if owner is None:
        return None
    return ProcessIdentity(pid=pid, start=start, host=host), owner


def _in_use(path: Path, holder: Holder) -> StoreInUse:
    process, owner = holder
    return StoreInUse(
        f"The data folder {path.parent} is in use by process {process.pid} "
        f"({owner}): stop it or choose another --data."
    )


def _tenure(db: sqlite3.Connection, path: Path) -> Tenure:
    status = os.stat(path)
    _, epoch, _ = db.execute(_SQL["identity"]).fetchone()
    return status.st_dev, status.st_ino, epoch
