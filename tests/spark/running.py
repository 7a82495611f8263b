"""Queries that run in the background of a test, and conditions to wait for."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

PATIENCE_SECONDS = 300.0
"""A bound against hanging; never waited out."""


def until(condition: Callable[[], object], query: StreamingQuery | None = None) -> None:
    """Wait for a condition; a query that fails meanwhile fails the test."""
    ends_at = time.monotonic() + PATIENCE_SECONDS
    pause = threading.Event()
    while not condition():
        if query is not None:
            failed = query.exception()
            assert failed is None, f"the query failed: {failed}"
        assert time.monotonic() < ends_at, "the condition did not come true"
        pause.wait(0.05)


@contextmanager
def running(
    stream: DataFrame, sink: Any, checkpoint: Path, interval: str = "0 seconds"
) -> Iterator[StreamingQuery]:
    """A query that goes on until the test leaves it."""
    query = (
        stream.writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(checkpoint))
        .trigger(processingTime=interval)
        .start()
    )
    try:
        yield query
    finally:
        query.stop()


def batches_in(log: Path) -> list[int]:
    """The batches of which a checkpoint's log has an entry: `offsets` or `commits`."""
    return sorted(int(file.name) for file in log.glob("[0-9]*"))


def forget_batch(checkpoint: Path, log: str, batch: int) -> None:
    """As if the machine had died before the entry was written."""
    for file in (checkpoint / log / str(batch), checkpoint / log / f".{batch}.crc"):
        file.unlink(missing_ok=True)


def last_offset(checkpoint: Path) -> dict[str, Any]:
    """The newest offset of the only source."""
    batch = batches_in(checkpoint / "offsets")[-1]
    line = (checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1]
    content: dict[str, Any] = json.loads(line)
    return content
