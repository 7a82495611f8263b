"""Files must have the agreed columns before Spark reads them."""

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from bench.operation_log_writer import LogWriter
from twinbus.spark.jobs.operation_logs import find_logs
from twinbus.spark.jobs.operation_rows import check_columns
from twinbus.spark.jobs.segment_files import OperationLogError


def rewritten(folder: Path, table: pa.Table) -> None:
    """Another table in the place of that of the only segment."""
    [segment] = (folder / "segments").glob("*.json")
    content = json.loads(segment.read_text())
    file = folder / content["file"]
    parquet.write_table(table, file)
    data = file.read_bytes()
    content |= {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    segment.write_text(json.dumps(content))


@pytest.fixture
def table(tmp_path: Path) -> pa.Table:
    at = datetime(2026, 11, 1, tzinfo=UTC)
    LogWriter(tmp_path, "a").write_rows([{"occurred_at": at, "operation": "send"}])
    return parquet.read_table(find_logs([tmp_path]).segments[0].path)


def test_the_agreed_columns_are_accepted(tmp_path: Path, table: pa.Table) -> None:
    rewritten(tmp_path, table.append_column("more", pa.array([1])))
    check_columns(find_logs([tmp_path]).segments)


def test_a_missing_column_is_refused(tmp_path: Path, table: pa.Table) -> None:
    rewritten(tmp_path, table.drop_columns(["message_uid"]))
    with pytest.raises(OperationLogError, match="no column message_uid"):
        check_columns(find_logs([tmp_path]).segments)


def test_a_column_of_another_type_is_refused(tmp_path: Path, table: pa.Table) -> None:
    at = table.column_names.index("batch")
    rewritten(tmp_path, table.set_column(at, "batch", pa.array(["1"])))
    with pytest.raises(OperationLogError, match="batch is string, and should be int64"):
        check_columns(find_logs([tmp_path]).segments)


def test_another_number_of_rows_is_refused(tmp_path: Path, table: pa.Table) -> None:
    rewritten(tmp_path, pa.concat_tables([table, table]))
    with pytest.raises(OperationLogError, match="it has 2 rows, its segment says 1"):
        check_columns(find_logs([tmp_path]).segments)


def test_what_is_no_parquet_is_refused(tmp_path: Path, table: pa.Table) -> None:
    rewritten(tmp_path, table)
    logs = find_logs([tmp_path])
    logs.segments[0].path.write_text("text")
    with pytest.raises(OperationLogError, match="not a Parquet file"):
        check_columns(logs.segments)
