"""Which process writes to a SQLite file just now, as Linux knows it.

A process that is stopped within a transaction keeps all others from writing. SQLite
cannot tell who it is; the kernel lists its locks.
"""

import os
from pathlib import Path
from typing import Final

_LOCKS: Final = Path("/proc/locks")

_WRITE_LOCK_BYTE: Final = 120
"""Of the -shm file: whoever writes to the log of a file in WAL mode has it locked."""


def writer_of(path: Path) -> int | None:
    """The id of the process that holds the lock for writing; None if nobody does, or
    the system does not tell."""
    try:
        inode = os.stat(f"{path}-shm").st_ino
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        # 12: POSIX  ADVISORY  WRITE 4711 fd:01:131 120 120
        fields = line.split()
        if len(fields) != 8 or fields[1:4] != ["POSIX", "ADVISORY", "WRITE"]:
            continue
        first, last = fields[6:]
        is_last = last == "EOF" or int(last) >= _WRITE_LOCK_BYTE
        is_locked = int(first) <= _WRITE_LOCK_BYTE and is_last
        if fields[5].rpartition(":")[2] == str(inode) and is_locked:
            return int(fields[4])
    return None
