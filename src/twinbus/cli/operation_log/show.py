"""Shows the last operations of the stores, for people or as JSON."""

import json
from datetime import UTC, datetime
from typing import Any, Final

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure
from twinbus.cli.operation_log.sources import log_sources
from twinbus.cli.operation_log.stored_rows import Row, stored_rows
from twinbus.cli.settings import settings
from twinbus.cli.tables import print_table
from twinbus.log_export.blob_source import SourceUnavailable

_COMMITS: Final = 1_000
"""How far back is looked."""


def show_log(
    *, last: int, entity: str | None, is_json: bool, flags: dict[str, Any]
) -> None:
    """Raises Failure."""
    wanted = None if entity is None else entity.strip("/").lower()
    rows: list[Row] = []
    try:
        for source in log_sources(settings(**flags)):
            rows += [
                row
                for row in stored_rows(source, commit_count=_COMMITS)
                if wanted in (None, (row["entity"] or "").lower())
            ]
    except SourceUnavailable as error:
        raise Failure(str(error), exit_codes.UNREADABLE) from None
    rows.sort(key=lambda row: (row["occurred_at"], row["batch"], row["position"]))
    rows = rows[-last:]
    if is_json:
        print(json.dumps([_as_json(row) for row in rows], indent=2))
    elif rows:
        _print(rows)
    else:
        print("No operations.")


def _time(row: Row) -> str:
    at = datetime.fromtimestamp(row["occurred_at"] / 1e6, UTC)
    return at.isoformat(timespec="milliseconds")


def _as_json(row: Row) -> Row:
    shown = {name: value for name, value in row.items() if value is not None}
    return {**shown, "occurred_at": _time(row)}


def _print(rows: list[Row]) -> None:
    print_table(
        ("time", "operation", "entity", "number", "message id", "by", "note"),
        [
            (
                _time(row),
                row["operation"],
                _place(row),
                str(row["sequence_number"] or ""),
                row["message_id"] or "",
                row["key_name"] or row["client"] or "the bus",
                row["reason"] or row["destination"] or "",
            )
            for row in rows
        ],
        right=(3,),
        name=2,
    )


def _place(row: Row) -> str:
    place = row["entity"] or "?"
    return f"{place}/{row['subqueue']}" if row["subqueue"] else place
