"""All that a report shows: tables, where they come from, and what is to be said."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from twinbus.spark.jobs.meter.price_book import PriceBook
from twinbus.spark.jobs.report.histogram import Histogram
from twinbus.spark.jobs.report.tables import ReportTable

if TYPE_CHECKING:
    from twinbus.spark.jobs.operation_logs import LogGap, LogSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Input of plots and page. Nothing of it depends on when it was made."""

    title: str
    # Of the first and the last operation; None if there is none.
    first_at: datetime | None
    last_at: datetime | None
    step_seconds: int
    # Arrow tables, by name.
    tables: Mapping[str, Any]
    # Of all entities, by measure.
    histograms: Mapping[str, Histogram]
    books: Sequence[PriceBook]
    sources: Sequence["LogSource"]
    gaps: Sequence["LogGap"]
    remarks: Sequence[str]

    @property
    def is_empty(self) -> bool:
        return self.first_at is None

    def rows(self, table: ReportTable) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.tables[table.name].to_pylist()
        return found

    def bills(self) -> dict[str, dict[str, Any]]:
        """What everything costs, by each book."""
        found: dict[str, dict[str, Any]] = {
            book.name: {"billed": 0.0, "cost": 0.0, "currency": book.currency}
            for book in self.books
        }
        for row in self.tables["costs"].to_pylist():
            found[row["book"]]["billed"] += row["billed"]
            found[row["book"]]["cost"] += row["cost"]
        return found

    @property
    def operation_count(self) -> int:
        return sum(self.tables["volumes"]["operations"].to_pylist())
