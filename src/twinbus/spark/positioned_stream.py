"""A stream whose batches are ranges between two positions.

It connects Spark's log, which has offsets as JSON, with an engine that knows positions
and ranges: the one for twinbus namespaces, or the one that browses any namespace.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pyspark.sql.datasource import InputPartition

from twinbus.spark.bulk.snapshot_age import SnapshotAge
from twinbus.spark.offsets import Offset, read_offset
from twinbus.spark.packing import Range, pack
from twinbus.spark.ranges_read import RangePartition
from twinbus.spark.read_options import ReadOptions


class PositionedEngine(Protocol):
    """Says where a stream begins, where a batch ends, and which ranges it has."""

    def initial(self) -> Offset: ...

    def end_with_what_is_there(self) -> None: ...

    def advance(self, start: Offset, max_messages: int | None) -> Offset: ...

    def latest(self) -> dict[str, Any] | None: ...

    def split(self, start: Offset, end: Offset) -> list[Range]: ...

    def committed(self, end: Offset) -> None: ...

    def close(self) -> None: ...


class PositionedStream:
    """`StreamEngine` over positions; `kind` is how executors read a range."""

    def __init__(
        self,
        options: ReadOptions,
        engine: PositionedEngine,
        kind: type[RangePartition],
    ) -> None:
        self._options = options
        self._engine = engine
        self._kind = kind

    def initial(self) -> dict[str, Any]:
        return self._engine.initial().to_json()

    def end_with_what_is_there(self) -> None:
        self._engine.end_with_what_is_there()

    def advance(
        self, start: Mapping[str, Any], max_messages: int | None
    ) -> dict[str, Any]:
        return self._engine.advance(read_offset(start), max_messages).to_json()

    def latest(self) -> dict[str, Any] | None:
        return self._engine.latest()

    def partitions(
        self, start: Mapping[str, Any], end: Mapping[str, Any]
    ) -> Sequence[InputPartition]:
        ranges = self._engine.split(read_offset(start), read_offset(end))
        return partitions_of(self._options, ranges, ("active",), self._kind)

    def committed(self, end: Mapping[str, Any]) -> None:
        self._engine.committed(read_offset(end))

    def close(self) -> None:
        self._engine.close()


def partitions_of(
    options: ReadOptions,
    ranges: Sequence[Range],
    states: tuple[str, ...],
    kind: type[RangePartition],
    planned: SnapshotAge | None = None,
) -> list[InputPartition]:
    """The ranges, packed into partitions. `planned`: for the first of them."""
    packed: list[list[Range]] = pack(ranges, options.max_partitions)
    if planned is not None and not packed:
        # A task that reads nothing, and looks.
        packed = [[]]
    return [
        kind(
            options.connection,
            part,
            options.columns,
            states,
            options.fails_on_loss,
            options.patience_ms,
            options.sessions,
            planned if at == 0 else None,
        )
        for at, part in enumerate(packed)
    ]
