"""Columns have all rows, and become a Parquet file with the types of the page."""

from pathlib import Path

import pyarrow
import pyarrow.parquet

from twinbus.log_files.columns import (
    COLUMNS,
    append_rows,
    empty_columns,
    parquet_bytes,
)

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "operation-log.md"
TYPES = {"text": "string", "long": "long", "int": "int", "double": "double"}


def test_a_value_is_for_all_rows_and_a_list_for_each() -> None:
    columns = empty_columns()
    append_rows(columns, 2, {"source": "s", "position": [0, 1]})
    append_rows(columns, 1, {"source": "t", "position": [5]})
    assert columns["source"] == ["s", "s", "t"]
    assert columns["position"] == [0, 1, 5]
    assert columns["reason"] == [None, None, None]


def test_rows_survive_a_file() -> None:
    columns = empty_columns()
    given = {"source": "s", "batch": 1, "position": 0, "occurred_at": 1_000_001}
    append_rows(columns, 1, {**given, "operation": "send", "result": "ok"})
    content = pyarrow.BufferReader(parquet_bytes(columns))
    table = pyarrow.parquet.read_table(content)
    [row] = table.to_pylist()
    assert row["occurred_at"].timestamp() == 1.000001
    assert row["message_uid"] is None
    assert not table.schema.field("result").nullable
    assert table.schema.metadata[b"twinbus.operation_log"] == b"2"


def test_the_page_describes_all_columns() -> None:
    lines = PAGE.read_text().splitlines()
    for name, kind, _ in COLUMNS:
        shown = TYPES.get(kind, "timestamp")
        assert any(line.startswith(f"| `{name}` | {shown} |") for line in lines), name
