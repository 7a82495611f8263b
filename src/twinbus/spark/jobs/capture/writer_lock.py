"""Keeps two captures from writing one lake at the same time.

On this host by a lock of the operating system, which ends with the process, however it
ends. Other storage has no such locks: there Spark notices that two queries have one
checkpoint, and the second one fails.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from twinbus.spark.jobs.lake.errors import LakeError
from twinbus.spark.jobs.lake.folder import LakeFolder, LocalFolder

_FILE: Final = ".writer"


@contextmanager
def only_writer(folder: LakeFolder) -> Iterator[None]:
    """Raises LakeError if another process writes the lake."""
    if not isinstance(folder, LocalFolder):
        yield
        return
    try:
        folder.root.mkdir(parents=True, exist_ok=True)
        with (folder.root / _FILE).open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
    except BlockingIOError:
        raise LakeError(
            f"{folder.name} is being written by another capture. Wait for its end, "
            "or capture into another folder."
        ) from None
    except OSError as error:
        raise LakeError(
            f"{folder.name} cannot be used: {error.strerror or error}. Give a folder "
            "that can be written to."
        ) from None
