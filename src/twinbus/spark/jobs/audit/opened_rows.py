"""The second pass: rows of opened buckets as they are, all others as counts.

Rows of a closer look stay rows of their own. All others of an entity that count for the
same become one row with their number. So one pass over the logs gives both the messages
to look at and the counts of each entity.
"""

from typing import TYPE_CHECKING, Final

from twinbus.spark.jobs.audit.audit_summary import TimelineStep
from twinbus.spark.jobs.audit.row_weights import BALANCE, KIND, counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TIMELINE: Final = tuple(TimelineStep.__dataclass_fields__)
KEPT: Final = (
    *TIMELINE,
    *("message_uid", "entity_kind", "purpose", "latency_ms", "delivery_count"),
)
"""The columns of a closer look."""

ROWS: Final = "rows"
IS_OPENED: Final = "is_opened"

_PLACE: Final = ("namespace", "entity", "entity_kind")


def opened_rows(rows: "DataFrame", buckets: "DataFrame") -> "DataFrame":
    """Rows of opened buckets with the columns of a closer look, and all others with
    those of their place alone; what each counts for there, `is_opened`, and in `rows`
    how many it stands for."""
    from pyspark.sql import functions as F

    marked = buckets.withColumn(IS_OPENED, F.lit(True))
    joined = rows.join(F.broadcast(marked), "bucket", "left")
    # The last two tell one row of a source from all others.
    own = [name for name in (*KEPT, "batch", "position") if name not in _PLACE]
    # One value, which nearly all rows do not have: to hash and to compare each column
    # would take longer than all the rest.
    details = F.expr(f"IF({IS_OPENED}, struct({', '.join(own)}), NULL)").alias("own")
    by_kind = counted(joined).groupBy(*_PLACE, KIND, BALANCE, details)
    found = by_kind.agg(F.count("*").alias(ROWS)).select(
        *(*_PLACE, KIND, BALANCE, "own.*"),
        F.expr("own IS NOT NULL").alias(IS_OPENED),
        ROWS,
    )
    # All that comes next is about single messages, and needs no other shuffle.
    return found.repartition("message_uid")
