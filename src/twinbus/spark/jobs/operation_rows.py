"""Rows of operation logs, as a DataFrame: what meter, audit and report start from.

The schema is fixed, see docs/reference/job-tables.md. Files are read by name, those of
checked segments and no others, so what is still being exported is never half read.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from twinbus.spark.jobs.operation_logs import OperationLogs, find_logs
from twinbus.spark.jobs.segment_files import OperationLogError, SegmentFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS: Final = {
    "source": "string",
    "batch": "bigint",
    "position": "int",
    "occurred_at": "timestamp",
    "operation": "string",
    "result": "string",
    "namespace": "string",
    "entity": "string",
    "entity_kind": "string",
    "subqueue": "string",
    "generation": "string",
    "fragment": "int",
    "sequence_number": "bigint",
    "message_uid": "string",
    "message_id": "string",
    "session_id": "string",
    "size_bytes": "bigint",
    "age_ms": "bigint",
    "latency_ms": "double",
    "delivery_count": "int",
    "reason": "string",
    "destination": "string",
    "key_name": "string",
    "client": "string",
    "purpose": "string",
    "amount": "bigint",
}
"""Types in Spark's words, in the order of the columns."""

_ARROW: Final = {
    "string": ("string", "large_string"),
    "bigint": ("int64",),
    "int": ("int32",),
    "double": ("double",),
    "timestamp": ("timestamp[us, tz=UTC]",),
}


def read_operations(
    spark: "SparkSession",
    folders: Sequence[str | Path],
    *,
    damaged_is_gap: bool = False,
) -> "DataFrame":
    """The rows of all logs in the folders. Raises OperationLogError."""
    return rows_of(spark, find_logs(folders, damaged_is_gap=damaged_is_gap))


def rows_of(spark: "SparkSession", logs: OperationLogs) -> "DataFrame":
    """The rows of logs that were found and checked. Raises OperationLogError."""
    check_columns(logs.segments)
    schema = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    files = [str(segment.path.absolute()) for segment in logs.segments]
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*files)


def check_columns(segments: Iterable[SegmentFile]) -> None:
    """Spark would fill a column that a file does not have with nulls, without a word.
    Raises OperationLogError."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    for segment in segments:
        try:
            found = parquet.read_metadata(segment.path)
        except (OSError, pa.ArrowException) as error:
            raise OperationLogError(
                f"{segment.path}: not a Parquet file ({error})."
            ) from None
        fault = _fault_of(found, segment)
        if fault:
            raise OperationLogError(f"{segment.path}: {fault}")


def _fault_of(found: Any, segment: SegmentFile) -> str | None:
    if found.num_rows != segment.rows:
        return f"it has {found.num_rows:,} rows, its segment says {segment.rows:,}."
    types = {field.name: str(field.type) for field in found.schema.to_arrow_schema()}
    for name, kind in COLUMNS.items():
        if name not in types:
            return f"it has no column {name}. Use the version that wrote it."
        if types[name] not in _ARROW[kind]:
            return (
                f"the column {name} is {types[name]}, and should be {_ARROW[kind][0]}. "
                "Use the version that wrote it."
            )
    return None
