"""What happened at each entity, counted: without a look at single messages."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from twinbus.spark.jobs.audit import row_meaning as meaning
from twinbus.spark.jobs.audit.opened_rows import ROWS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, Row

COUNTS: Final = {
    "claimed": meaning.CLAIM,
    "sent": f"{meaning.CREATED} AND operation <> 'restore'",
    "restored": f"{meaning.CREATED} AND operation = 'restore'",
    "arrived": meaning.ARRIVED,
    "completed": (
        "NOT (source LIKE 'sender-%') AND result = 'ok' AND operation IN "
        "('complete', 'receive_and_delete')"
    ),
    "expired": "result = 'ok' AND operation = 'expire'",
    "removed": "result = 'ok' AND operation IN ('cancel', 'delete')",
    "moved": meaning.MOVED,
    "dead_lettered": meaning.BURIED,
    "redelivered": (
        "result = 'ok' AND operation = 'lock' AND coalesce(delivery_count > 1, false)"
    ),
}
"""Conditions of the rows that are counted, by column."""


_KIND: Final = (
    "CASE "
    + " ".join(
        f"WHEN {text} THEN {number}" for number, text in enumerate(COUNTS.values())
    )
    + " END"
)
"""Which of them a row is; it is one at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityCounts:
    """What happened at one entity."""

    entity_kind: str | None
    # What came and has not left.
    in_flight: int
    # By the names of COUNTS.
    counted: dict[str, int]


def entity_counts(rows: "DataFrame") -> dict[tuple[str, str], EntityCounts]:
    """By namespace and entity, from rows that may stand for many."""
    from pyspark.sql import functions as F

    kinds = rows.where("entity IS NOT NULL").groupBy(
        "namespace",
        "entity",
        "entity_kind",
        F.expr(_KIND).alias("kind"),
        F.expr(meaning.BALANCE).alias("balance"),
    )
    found: dict[tuple[str, str], list[Row]] = {}
    for row in kinds.agg(F.sum(ROWS).alias(ROWS)).collect():
        found.setdefault((row["namespace"], row["entity"]), []).append(row)
    return {place: _counts(those) for place, those in found.items()}


def _counts(groups: "Iterable[Row]") -> EntityCounts:
    names = list(COUNTS)
    counted = dict.fromkeys(names, 0)
    in_flight, kinds = 0, set()
    for row in groups:
        if row["kind"] is not None:
            counted[names[row["kind"]]] += row[ROWS]
        in_flight += row["balance"] * row[ROWS]
        kinds.add(row["entity_kind"] or "")
    return EntityCounts(
        entity_kind=max(kinds) or None, in_flight=in_flight, counted=counted
    )
