"""Writes exported operation logs, as the exporter of a bus does: for tests and benches.

One writer stands for one source: a message store, or a paired sender.
"""

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet

from twinbus.spark.jobs.operation_rows import COLUMNS
from twinbus.spark.jobs.segment_files import FORMAT

_TYPES = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
REQUIRED = ("source", "batch", "position", "occurred_at", "operation", "result")
SCHEMA = pa.schema(
    [
        pa.field(name, _TYPES[kind], nullable=name not in REQUIRED)
        for name, kind in COLUMNS.items()
    ]
)
_ROWS_OF_A_COMMIT = 50


class LogWriter:
    """The log of one source, written segment by segment."""

    def __init__(
        self, folder: Path, namespace: str, kind: str = "store", name: str | None = None
    ) -> None:
        self.folder = folder
        self.namespace = namespace
        self.kind = kind
        seed = name or f"{folder}/{namespace}/{kind}"
        self.source = f"{kind}-{uuid.uuid5(uuid.NAMESPACE_URL, seed).hex}"
        self.number = 0
        self.rows = 0
        self._last_batch = 0
        (folder / "segments").mkdir(parents=True, exist_ok=True)

    def write_rows(
        self,
        rows: Iterable[Mapping[str, Any]],
        complete_until: datetime | None = None,
        *,
        is_last: bool = False,
    ) -> Path:
        """A segment of rows given one by one: what a row does not say is null, or `ok`,
        or the namespace of the log."""
        listed = [{"result": "ok", "namespace": self.namespace, **row} for row in rows]
        columns = {
            field.name: pa.array([row.get(field.name) for row in listed], field.type)
            for field in SCHEMA
            if any(field.name in row for row in listed)
        }
        return self.write(pa.table(columns), complete_until, is_last=is_last)

    def write(
        self,
        table: pa.Table,
        complete_until: datetime | None = None,
        *,
        is_last: bool = False,
    ) -> Path:
        """A segment of a table that has some of the columns, in order of time; the last
        one of a sender closes its log. Returns the JSON of the segment."""
        self.number += 1
        at = self._numbered(table)
        table = pa.table(
            [
                at[field.name] if field.name in at else pa.nulls(len(table), field.type)
                for field in SCHEMA
            ],
            schema=SCHEMA,
        )
        path = self._file_of(table, complete_until)
        parquet.write_table(table, self.folder / path, compression="zstd")
        return self._vouch(table, path, complete_until, is_last)

    def _numbered(self, table: pa.Table) -> dict[str, Any]:
        """Its columns, those that every row must have included."""
        count = len(table)
        columns = {name: table.column(name) for name in table.column_names}
        row = pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1), count)), 1)
        commit = pc.divide(row, _ROWS_OF_A_COMMIT)
        position = pc.subtract(row, pc.multiply(commit, _ROWS_OF_A_COMMIT))
        columns["batch"] = pc.add(commit, self._last_batch + 1)
        columns["position"] = pc.cast(position, pa.int32())
        columns["source"] = pa.repeat(pa.scalar(self.source), count)
        columns.setdefault("namespace", pa.repeat(pa.scalar(self.namespace), count))
        columns.setdefault("result", pa.repeat(pa.scalar("ok"), count))
        self.rows += count
        return columns

    def _file_of(self, table: pa.Table, complete_until: datetime | None) -> str:
        first = table["occurred_at"][0].as_py() if len(table) else complete_until
        assert first is not None, "an empty segment needs its complete_until"
        place = f"operations/date={first:%Y-%m-%d}/hour={first:%H}"
        (self.folder / place).mkdir(parents=True, exist_ok=True)
        return f"{place}/{self.source}-{self.number:012d}.parquet"

    def _vouch(
        self,
        table: pa.Table,
        path: str,
        complete_until: datetime | None,
        is_last: bool,
    ) -> Path:
        content = (self.folder / path).read_bytes()
        bounds = pc.min_max(table["occurred_at"])
        first, last = bounds["min"].as_py(), bounds["max"].as_py()
        first_batch = self._last_batch + 1
        if len(table):
            self._last_batch = table["batch"][-1].as_py()
        until = complete_until or last
        segment = {
            "format": FORMAT,
            "source": self.source,
            "kind": self.kind,
            "namespace": self.namespace,
            "number": self.number,
            "file": path,
            "sha256": hashlib.sha256(content).hexdigest(),
            "bytes": len(content),
            "rows": len(table),
            "first_batch": first_batch,
            "last_batch": self._last_batch,
            "first_occurred_at": first and first.isoformat(),
            "last_occurred_at": last and last.isoformat(),
            "exported_at": until and until.isoformat(),
            "gaps": [],
            "complete_until": until and until.isoformat(),
        }
        if is_last:
            segment["closed"] = True
        name = f"{self.source}-{self.number:012d}.json"
        written = self.folder / "segments" / name
        written.write_text(json.dumps(segment, indent=1))
        return written
