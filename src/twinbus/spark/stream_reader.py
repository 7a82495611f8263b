"""Spark's streaming source: passes Spark's calls on to the engine of the mode."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from twinbus.spark.plain_error import each_plainly, plainly
from twinbus.spark.read_options import ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa


class StreamEngine(Protocol):
    """The engine of a stream. Offsets are those in Spark's log; each engine has its own
    form of them."""

    def initial(self) -> dict[str, Any]: ...

    def end_with_what_is_there(self) -> None: ...

    def advance(
        self, start: Mapping[str, Any], max_messages: int | None
    ) -> dict[str, Any]: ...

    def latest(self) -> dict[str, Any] | None:
        """For the progress of the query; None if it is not known."""

    def partitions(
        self, start: Mapping[str, Any], end: Mapping[str, Any]
    ) -> Sequence[InputPartition]: ...

    def committed(self, end: Mapping[str, Any]) -> None: ...

    def close(self) -> None: ...


@runtime_checkable
class ReadablePartition(Protocol):
    """A partition knows how it is read, in an executor."""

    def read(self) -> "Iterator[pa.RecordBatch]": ...


class ServiceBusStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in a process of the driver as long as the query; only `read` runs in
    executors."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._engine: StreamEngine | None = None

    def _opened(self) -> StreamEngine:
        """The engine, made when first needed: this object is pickled before."""
        if self._engine is None:
            from twinbus.spark.engines import stream_engine

            self._engine = stream_engine(self._options)
        return self._engine

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_engine": None}

    @plainly
    def prepareForTriggerAvailableNow(self) -> None:
        self._opened().end_with_what_is_there()

    @plainly
    def initialOffset(self) -> dict[str, Any]:
        return self._opened().initial()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_messages)

    @plainly
    def latestOffset(
        self, start: Mapping[str, Any], limit: ReadLimit
    ) -> dict[str, Any]:
        return self._opened().advance(start, _max_messages(limit))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Called after `latestOffset`, whose answers it uses: it asks nothing."""
        return None if self._engine is None else self._engine.latest()

    @plainly
    def partitions(
        self, start: Mapping[str, Any], end: Mapping[str, Any]
    ) -> Sequence[InputPartition]:
        if start == end:
            return []
        return self._opened().partitions(start, end)

    @each_plainly
    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        # Without any partition Spark asks for one that is none.
        if isinstance(partition, ReadablePartition):
            yield from partition.read()

    @plainly
    def commit(self, end: Mapping[str, Any]) -> None:
        self._opened().committed(end)

    def stop(self) -> None:
        """Spark may end the process instead, when a query is over."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None


def _max_messages(limit: ReadLimit) -> int | None:
    """None: all there is."""
    if isinstance(limit, ReadMaxRows):
        return int(limit.max_rows)
    assert isinstance(limit, ReadAllAvailable), f"Spark asks for {limit}"
    return None
