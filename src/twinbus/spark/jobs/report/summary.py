"""What a report says about itself, for scripts."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSummary:
    """The JSON of `twinbus spark report --json`; its shape does not change."""

    page: str
    # ISO 8601, UTC; None if the log has no operation in this time.
    first_at: str | None
    last_at: str | None
    operations: int
    # Percentiles of all entities, by measure.
    latencies: dict[str, dict[str, float | None]]
    dead_letters: int
    outages: int
    diverted: int
    restored: int
    gaps: int
    # By price book: billed operations, cost and currency.
    costs: dict[str, dict[str, Any]]
    remarks: tuple[str, ...]
    # Rows of each table.
    tables: dict[str, int]
    seconds: float
