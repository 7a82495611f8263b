"""The second pass: rows of opened buckets as they are, all others as counts.

Rows of a closer look stay rows of their own. All others of an entity that mean the same
become one row with their number. So one pass over the logs gives both the messages to
look at and the counts of each entity.
"""

from typing import TYPE_CHECKING, Final

from twinbus.spark.jobs.audit import row_meaning as meaning
from twinbus.spark.jobs.audit.audit_summary import TimelineStep

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TIMELINE: Final = tuple(TimelineStep.__dataclass_fields__)
KEPT: Final = (*TIMELINE, "message_uid", "entity_kind", "purpose", "latency_ms")
"""The columns of a closer look."""

ROWS: Final = "rows"
IS_OPENED: Final = "is_opened"

_PLAIN: Final = (
    *("namespace", "entity", "entity_kind"),
    *("operation", "result", "subqueue"),
)
_COARSE: Final = {
    "is_sender": meaning.IS_SENDER,
    "is_timed_out": "coalesce(reason = 'TTLExpiredException', false)",
    "is_redelivered": "coalesce(delivery_count > 1, false)",
}
"""What the counts of an entity depend on: columns as they are, and what matters of
others."""

_STAND_INS: Final = {
    "source": "IF(is_sender, 'sender-', 'store-')",
    "reason": "IF(is_timed_out, 'TTLExpiredException', NULL)",
    "delivery_count": "IF(is_redelivered, 2, NULL)",
}
"""Values that mean the same as all those that a row stands for."""


def opened_rows(rows: "DataFrame", buckets: "DataFrame") -> "DataFrame":
    """The columns of both, `is_opened`, and in `rows` how many a row stands for."""
    from pyspark.sql import functions as F

    marked = buckets.withColumn(IS_OPENED, F.lit(True))
    joined = rows.join(F.broadcast(marked), "bucket", "left")
    # The last two tell one row of a source from all others.
    needed = dict.fromkeys((*KEPT, *_STAND_INS, "batch", "position"))
    own = [name for name in needed if name not in _PLAIN]
    # One value, which nearly all rows do not have: to hash and to compare each column
    # would take longer than all the rest.
    details = F.expr(f"IF({IS_OPENED}, struct({', '.join(own)}), NULL)").alias("own")
    coarse = [F.expr(text).alias(name) for name, text in _COARSE.items()]
    found = joined.groupBy(*_PLAIN, *coarse, details).agg(F.count("*").alias(ROWS))
    columns = [F.expr(_column(name)).alias(name) for name in own]
    found = found.select(
        *_PLAIN, *columns, F.expr("own IS NOT NULL").alias(IS_OPENED), ROWS
    )
    # All that comes next is about single messages, and needs no other shuffle.
    return found.repartition("message_uid")


def _column(name: str) -> str:
    stand_in = _STAND_INS.get(name)
    return f"IF(own IS NULL, {stand_in}, own.{name})" if stand_in else f"own.{name}"
