"""Writes a report into a folder: the page, plots, tables.

    report.html
    plots/NAME.png
    tables/NAME.csv, tables/NAME.parquet          tables of the whole report
    tables/NAME/date=D/hour=H/rows.parquet        tables of hours

Hours of the report replace what an earlier one wrote of them, those without rows, too;
other hours stay as they are. Each file appears whole: it is written beside its place
and then renamed.
"""

import os
import shutil
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from twinbus.spark.jobs.report.figures import Plot
from twinbus.spark.jobs.report.findings import Findings
from twinbus.spark.jobs.report.tables import TABLES, ReportTable

PAGE: Final = "report.html"
_ROWS: Final = "rows.parquet"


def write_report(
    folder: Path,
    findings: Findings,
    page: str,
    plots: Iterable[Plot],
    hours: tuple[datetime, datetime],
) -> Path:
    """Write all files; returns where the page is. Raises OSError."""
    # Of an earlier report, which had something to show.
    for old in (folder / "plots").glob("*.png"):
        old.unlink()
    for plot in plots:
        _replace(folder / "plots" / f"{plot.name}.png", plot.png)
    for table in TABLES:
        _write_table(folder / "tables", table, findings.tables[table.name], hours)
    # Last: who sees a new page finds the files that it speaks of.
    _replace(folder / PAGE, page.encode())
    return folder / PAGE


def _write_table(
    folder: Path, table: ReportTable, found: Any, hours: tuple[datetime, datetime]
) -> None:
    from pyarrow import csv

    _write(folder / f"{table.name}.csv", lambda file: csv.write_csv(found, file))
    if table.has_hours:
        _write_hours(folder / table.name, found, hours)
    else:
        _write_parquet(folder / f"{table.name}.parquet", found)


def _write_hours(folder: Path, found: Any, hours: tuple[datetime, datetime]) -> None:
    import pyarrow.compute as pc

    present = set(found["hour_start"].to_pylist())
    for hour in _known_hours(folder):
        if hours[0] <= hour < hours[1] and hour not in present:
            shutil.rmtree(_hour_folder(folder, hour))
    for hour in sorted(present):
        rows = found.filter(pc.equal(found["hour_start"], hour))
        _write_parquet(_hour_folder(folder, hour) / _ROWS, rows)


def _hour_folder(folder: Path, hour: datetime) -> Path:
    return folder / f"date={hour:%Y-%m-%d}" / f"hour={hour:%H}"


def _known_hours(folder: Path) -> list[datetime]:
    """Hours that an earlier report wrote."""
    found = []
    for path in folder.glob("date=*/hour=*"):
        day, hour = (
            path.parent.name.removeprefix("date="),
            path.name.removeprefix("hour="),
        )
        at = datetime.fromisoformat(f"{day}T00:00:00+00:00")
        found.append(at + timedelta(hours=int(hour)))
    return found


def _write_parquet(path: Path, found: Any) -> None:
    from pyarrow import parquet

    _write(path, lambda file: parquet.write_table(found, file))


def _write(path: Path, write: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.draft")
    try:
        write(draft)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _replace(path: Path, content: bytes) -> None:
    _write(path, lambda draft: draft.write_bytes(content))
