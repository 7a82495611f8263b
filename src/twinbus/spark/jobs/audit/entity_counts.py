"""What happened at each entity, counted: without a look at single messages."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from twinbus.spark.jobs.audit.opened_rows import ROWS
from twinbus.spark.jobs.audit.row_weights import BALANCE, KIND, KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityCounts:
    """What happened at one entity."""

    entity_kind: str | None
    # What came and has not left.
    in_flight: int
    # By the names of KINDS.
    counted: dict[str, int]


def entity_counts(rows: "DataFrame") -> dict[tuple[str, str], EntityCounts]:
    """By namespace and entity, from rows that may stand for many."""
    from pyspark.sql import functions as F

    kinds = rows.where("entity IS NOT NULL").groupBy(
        *("namespace", "entity", "entity_kind", KIND, BALANCE)
    )
    found: dict[tuple[str, str], list[Row]] = {}
    for row in kinds.agg(F.sum(ROWS).alias(ROWS)).collect():
        found.setdefault((row["namespace"], row["entity"]), []).append(row)
    return {place: _counts(those) for place, those in found.items()}


def _counts(groups: "Iterable[Row]") -> EntityCounts:
    counted = dict.fromkeys(KINDS, 0)
    in_flight, kinds = 0, set()
    for row in groups:
        if row[KIND] is not None:
            counted[KINDS[row[KIND]]] += row[ROWS]
        in_flight += row[BALANCE] * row[ROWS]
        kinds.add(row["entity_kind"] or "")
    return EntityCounts(
        entity_kind=max(kinds) or None, in_flight=in_flight, counted=counted
    )
