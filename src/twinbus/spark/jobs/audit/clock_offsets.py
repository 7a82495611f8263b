"""How far the clocks of two sites are apart, from messages that both have seen.

A syphon settles a message of the backlog just after the primary has taken it, and a
sender hears of its message just after the bus has stored it. So the median of what lies
between is small if the clocks agree.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from twinbus.spark.jobs.audit import row_meaning as meaning
from twinbus.spark.jobs.audit.row_weights import is_kind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NOTICED_SECONDS: Final = 30.0
"""Less than this is no news: a syphon may take some seconds to settle."""

_HERE: Final = f"NOT is_backlog AND {is_kind('sent', 'restored')}"
_LEFT: Final = f"is_backlog AND subqueue IS NULL AND {is_kind('completed')}"
_CLAIM: Final = f"{is_kind('claimed')} AND operation = 'send'"
_MOMENTS: Final = {
    "restored_at": f"max(IF({_HERE}, occurred_at, NULL))",
    "left_at": f"max(IF({_LEFT}, occurred_at, NULL))",
    "stored_at": f"min(IF({_HERE}, occurred_at, NULL))",
    "claimed_at": f"min(IF({_CLAIM}, {meaning.CLAIMED_AT}, NULL))",
}


@dataclass(frozen=True, slots=True)
class ClockOffsets:
    """Seconds that another clock is ahead of the primary's; 0 if not known."""

    secondary: float = 0.0
    senders: float = 0.0

    @property
    def widest(self) -> float:
        return max(abs(self.secondary), abs(self.senders))


def clock_offsets(rows: "DataFrame") -> ClockOffsets:
    """Measure them on the rows of some messages, as `opened_rows` has them."""
    from pyspark.sql import functions as F

    told = rows.withColumn("is_backlog", F.expr(meaning.IS_BACKLOG))
    messages = told.groupBy("message_uid").agg(
        *(F.expr(text).alias(name) for name, text in _MOMENTS.items())
    )
    found = messages.select(
        _median("left_at", "restored_at").alias("secondary"),
        _median("claimed_at", "stored_at").alias("senders"),
    ).first()
    if found is None:
        return ClockOffsets()
    return ClockOffsets(_noticed(found["secondary"]), _noticed(found["senders"]))


def _median(later: str, earlier: str) -> "Column":
    from pyspark.sql import functions as F

    between = f"unix_micros({later}) - unix_micros({earlier})"
    return F.expr(f"percentile_approx({between}, 0.5) / 1000000.0D")


def _noticed(seconds: float | None) -> float:
    if seconds is None or abs(seconds) < NOTICED_SECONDS:
        return 0.0
    return round(float(seconds), 1)
