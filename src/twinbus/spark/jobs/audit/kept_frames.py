"""Frames that several steps of the audit look at."""

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame


@contextmanager
def kept(frame: "DataFrame") -> "Iterator[DataFrame]":
    """Computed once, and kept in memory or on disk meanwhile."""
    from pyspark import StorageLevel

    frame = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield frame
    finally:
        frame.unpersist()
