"""Writes docs/reference/report.md: the tables of `twinbus spark report`."""

from collections.abc import Iterator
from pathlib import Path

from twinbus.spark.jobs.report.tables import TABLES, ReportTable

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "report.md"

_HEAD = """# Tables of a report

`scripts/report_page.py` makes this page from the code.

[`twinbus spark report`](../howto/report.md) writes these tables into the folder
`tables`, each as `NAME.csv`. As Parquet, tables of hours are
`NAME/date=D/hour=H/rows.parquet`, which Spark and others read as one table, and all
others are `NAME.parquet`. Types are those of Spark; times are UTC, and columns may be
null. Columns are never renamed, and new ones come last.
"""


def page() -> str:
    """The whole text of the page."""
    return "\n".join((_HEAD, *(line for table in TABLES for line in _lines(table))))


def _lines(table: ReportTable) -> Iterator[str]:
    yield f"## {table.name}"
    yield ""
    yield f"{table.text} {'A table of hours.' if table.has_hours else ''}".strip()
    yield ""
    yield "| Column | Type | |"
    yield "|---|---|---|"
    for column in table.columns:
        yield f"| `{column.name}` | {column.type} | {column.text} |"
    yield ""


def main() -> None:
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
