"""Spark's streaming source: its calls, handed to the engine of the chosen mode."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from twinbus.spark.offsets import Offset, read_offset
from twinbus.spark.packing import Range, pack
from twinbus.spark.ranges_read import RangePartition
from twinbus.spark.read_options import ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa


class StreamEngine(Protocol):
    """What is behind a stream."""

    def initial(self) -> Offset: ...

    def end_with_what_is_there(self) -> None: ...

    def advance(self, start: Offset, max_messages: int | None) -> Offset: ...

    def split(self, start: Offset, end: Offset) -> list[Range]: ...

    def committed(self, end: Offset) -> None: ...


class ServiceBusStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in one process of the driver for as long as the query; only `read` runs
    in executors."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._engine: StreamEngine | None = None

    def _opened(self) -> StreamEngine:
        """Made when it is first needed: this object is pickled before."""
        if self._engine is None:
            from twinbus.spark.engines import stream_engine

            self._engine = stream_engine(self._options)
        return self._engine

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_engine": None}

    def prepareForTriggerAvailableNow(self) -> None:
        self._opened().end_with_what_is_there()

    def initialOffset(self) -> dict[str, Any]:
        return self._opened().initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_messages)

    def latestOffset(
        self, start: Mapping[str, Any], limit: ReadLimit
    ) -> dict[str, Any]:
        end = self._opened().advance(read_offset(start), _max_messages(limit))
        return end.to_json()

    def partitions(
        self, start: Mapping[str, Any], end: Mapping[str, Any]
    ) -> Sequence[InputPartition]:
        if start == end:
            return []
        ranges = self._opened().split(read_offset(start), read_offset(end))
        options = self._options
        return [
            RangePartition(
                options.connection,
                part,
                options.columns,
                ("active",),
                options.fails_on_loss,
                options.patience_ms,
            )
            for part in pack(ranges, options.max_partitions)
        ]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        if isinstance(partition, RangePartition):
            yield from partition.read()

    def commit(self, end: Mapping[str, Any]) -> None:
        self._opened().committed(read_offset(end))


def _max_messages(limit: ReadLimit) -> int | None:
    """None: all there is."""
    if isinstance(limit, ReadMaxRows):
        return int(limit.max_rows)
    assert isinstance(limit, ReadAllAvailable), f"Spark asks for {limit}"
    return None
