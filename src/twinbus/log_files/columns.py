"""The columns of exported operations: one row for each operation on a message.

docs/reference/operation-log.md describes them. Parquet is written by pyarrow, which the
bus itself does not need.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

FORMAT: Final = 2

TEXT: Final = "text"
LONG: Final = "long"
INT: Final = "int"
DOUBLE: Final = "double"
TIME: Final = "time"

# Name, type, and whether it is always there.
COLUMNS: Final[tuple[tuple[str, str, bool], ...]] = (
    ("source", TEXT, True),
    ("batch", LONG, True),
    ("position", INT, True),
    ("occurred_at", TIME, True),
    ("operation", TEXT, True),
    ("result", TEXT, True),
    ("namespace", TEXT, False),
    ("entity", TEXT, False),
    ("entity_kind", TEXT, False),
    ("subqueue", TEXT, False),
    ("generation", TEXT, False),
    ("fragment", INT, False),
    ("sequence_number", LONG, False),
    ("message_uid", TEXT, False),
    ("message_id", TEXT, False),
    ("session_id", TEXT, False),
    ("size_bytes", LONG, False),
    ("age_ms", LONG, False),
    ("latency_ms", DOUBLE, False),
    ("delivery_count", INT, False),
    ("reason", TEXT, False),
    ("destination", TEXT, False),
    ("key_name", TEXT, False),
    ("client", TEXT, False),
    ("purpose", TEXT, False),
    ("amount", LONG, False),
)

Columns = dict[str, list[Any]]


def empty_columns() -> Columns:
    """Columns without rows."""
    return {name: [] for name, _, _ in COLUMNS}


def append_rows(columns: Columns, count: int, values: Mapping[str, Any]) -> None:
    """Add this many rows. A list has a value for each row, anything else is the same in
    all of them; what is not named is null."""
    for name, column in columns.items():
        value = values.get(name)
        if isinstance(value, list):
            column += value
        else:
            column += [value] * count


def parquet_bytes(columns: Mapping[str, Sequence[Any]]) -> bytes:
    """A Parquet file of these rows. Times are in microseconds."""
    import pyarrow
    from pyarrow import parquet

    types = {
        TEXT: pyarrow.string(),
        LONG: pyarrow.int64(),
        INT: pyarrow.int32(),
        DOUBLE: pyarrow.float64(),
        TIME: pyarrow.timestamp("us", tz="UTC"),
    }
    schema = pyarrow.schema(
        [
            pyarrow.field(name, types[kind], nullable=not is_required)
            for name, kind, is_required in COLUMNS
        ],
        metadata={"twinbus.operation_log": str(FORMAT)},
    )
    arrays = [pyarrow.array(columns[item.name], type=item.type) for item in schema]
    table = pyarrow.Table.from_arrays(arrays, schema=schema)
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(table, sink, compression="zstd")
    written: bytes = sink.getvalue().to_pybytes()
    return written
