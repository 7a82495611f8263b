"""A log that `twinbus log export` has written, as a trace reads it."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final, final

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.cli.tracing.message_trace import COLUMNS, Row

_ROWS: Final = "operations"
_SEGMENTS: Final = "segments"


@final
class ExportedLog:
    """Of one folder. Needs pyarrow."""

    def __init__(self, folder: Path) -> None:
        """Raises Failure."""
        self._folder = folder
        self._files = _dataset(folder)

    def uids(self, message_id: str) -> set[str]:
        found = self._files.to_table(
            columns=["message_uid"], filter=self._is_named(message_id)
        )
        return {uid for uid in found["message_uid"].to_pylist() if uid is not None}

    def rows(self, message_id: str, uids: Collection[str]) -> list[Row]:
        import pyarrow as pa
        import pyarrow.compute as pc

        is_its = self._is_named(message_id) | pc.field("message_uid").isin(
            pa.array(sorted(uids), pa.string())
        )
        known = [name for name in COLUMNS if name in self._files.schema.names]
        rows: list[Row] = self._files.to_table(columns=known, filter=is_its).to_pylist()
        return rows

    def _is_named(self, message_id: str) -> Any:
        import pyarrow.compute as pc

        return (pc.field("message_id") == message_id) | (
            pc.field("message_uid") == message_id.lower()
        )

    def gaps(self) -> list[Row]:
        return _gaps(self._folder)


def _dataset(folder: Path) -> Any:
    try:
        import pyarrow as pa
        import pyarrow.dataset as ds
    except ImportError:
        raise Failure(
            "Exported logs can be read with the package pyarrow: pip install pyarrow.",
            exit_codes.FAILED,
        ) from None
    rows = folder / _ROWS
    if not rows.is_dir():
        raise Failure(
            f"{folder} has no exported operation log: there is no folder {rows}.",
            exit_codes.NOT_FOUND,
        )
    try:
        return ds.dataset(rows, format="parquet")
    except (OSError, pa.ArrowException) as error:
        raise Failure(
            f"The operation log in {folder} can't be read: {error}.",
            exit_codes.UNREADABLE,
        ) from None


def _gaps(folder: Path) -> list[dict[str, Any]]:
    """What the segments say is missing, and numbers that no segment has."""
    numbers: dict[str, list[int]] = {}
    found: list[dict[str, Any]] = []
    for file in sorted((folder / _SEGMENTS).glob("*.json")):
        try:
            segment = json.loads(file.read_text(encoding="utf-8"))
            source = str(segment["source"])
            numbers.setdefault(source, []).append(int(segment["number"]))
            if segment.get("removed_at"):
                found.append({"source": source, "why": "retention"})
            found += [{"source": source, **gap} for gap in segment.get("gaps", ())]
        except (OSError, ValueError, KeyError, TypeError):
            found.append({"source": file.stem, "why": "unreadable"})
    for source, known in numbers.items():
        missing = sorted(set(range(1, max(known) + 1)) - set(known))
        found += [
            {"source": source, "why": "missing", "number": number} for number in missing
        ]
    return found
