"""What metering found."""

from dataclasses import asdict, dataclass
from typing import Any

from twinbus.spark.jobs.meter.pair_costs import PairCost, PairUse


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledLine:
    """Operations of one book, of an entity and a kind, over all hours."""

    book: str
    namespace: str | None
    entity: str | None
    kind: str
    interactions: int
    billed: float
    cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BookTotal:
    """All of one book."""

    book: str
    title: str
    currency: str
    billed: float
    cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterSummary:
    """The whole of it."""

    totals: tuple[BookTotal, ...]
    # By book, namespace, entity and kind; those with most operations first.
    lines: tuple[BilledLine, ...]
    pair: PairUse | None
    pair_costs: tuple[PairCost, ...]
    what_if: tuple[PairCost, ...]
    rows: int
    hours: int
    # Hours that are not complete: in the open tail, or over a gap.
    open_hours: tuple[str, ...]
    gaps: tuple[str, ...]
    seconds: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
