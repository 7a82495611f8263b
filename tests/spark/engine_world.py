"""The driver's part of a stream, and its tasks, without Spark: the test makes the same
calls in the same order, so that a crash can be put between any two of them."""

from collections.abc import Iterator
from typing import Any

from twinbus.spark.portable.browsing import BrowsingStream
from twinbus.spark.portable.deferring import DeferringStream
from twinbus.spark.portable.peeked_ranges import PeekPartition
from twinbus.spark.positioned_stream import PositionedStream
from twinbus.spark.read_options import StreamSettlement, read_options
from twinbus.spark.stream_reader import ReadablePartition, StreamEngine

from .harness import Namespace

Json = dict[str, Any]


class EngineRun:
    """One process of a driver: its memory is gone when it is made anew."""

    def __init__(self, namespace: Namespace, entities: str, **options: object) -> None:
        given = {"settlement": "defer", "timeout": "20s", **options}
        read = read_options(namespace.options(entities, **given), is_stream=True)
        self.engine: StreamEngine
        if read.settlement is StreamSettlement.DEFER:
            deferring = DeferringStream(read)
            self.engine, self.close = deferring, deferring.close
        else:
            browsing = BrowsingStream(read)
            self.engine = PositionedStream(read, browsing, PeekPartition)
            self.close = browsing.close

    def begun(self) -> Json:
        """The first offset that has the reader's id."""
        return self.engine.advance(self.engine.initial(), 1)

    def rows(self, start: Json, end: Json) -> list[dict[str, Any]]:
        """What the tasks of a batch read."""
        found: list[dict[str, Any]] = []
        for partition in self.engine.partitions(start, end):
            assert isinstance(partition, ReadablePartition)
            for batch in partition.read():
                found += batch.to_pylist()
        return found

    def bodies(self, start: Json, end: Json) -> list[str]:
        return [row["body"].decode() for row in self.rows(start, end)]

    def batches(
        self, start: Json, max_messages: int | None = None
    ) -> Iterator[tuple[Json, list[str]]]:
        """Batch after batch until there is no more; each counts as processed."""
        while (end := self.engine.advance(start, max_messages)) != start:
            yield end, self.bodies(start, end)
            start = end

    def read_all(self, start: Json, max_messages: int | None = None) -> list[str]:
        return [
            body for _, bodies in self.batches(start, max_messages) for body in bodies
        ]


class Engines:
    """Makes runs, and closes them: `engines("orders", maxBytesPerBatch="1m")`."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._made: list[EngineRun] = []

    def __call__(self, entities: str, **options: object) -> EngineRun:
        run = EngineRun(self._namespace, entities, **options)
        self._made.append(run)
        return run

    def close(self) -> None:
        for run in self._made:
            run.close()
