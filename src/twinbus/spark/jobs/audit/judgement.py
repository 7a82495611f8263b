"""What a suspicion comes to, given how far the logs reach.

That a message is nowhere is known only if the logs are complete where it would be: not
over a gap, not in the open tail, and not before the log begins. There the answer is
unknown, and never zero.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from twinbus.spark.jobs.audit.clock_offsets import ClockOffsets
from twinbus.spark.jobs.audit.suspicions import ABSENT, DOUBLED, STRAY
from twinbus.spark.jobs.operation_logs import RETENTION, LogGap, OperationLogs
from twinbus.spark.jobs.segment_files import STORE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOST: Final = "lost"
DUPLICATED: Final = "duplicated"
MISROUTED: Final = "misrouted"
UNKNOWN: Final = "unknown"
OPEN_TAIL: Final = "open tail"
BEFORE_LOG: Final = "before the log"
BEFORE_LAKE: Final = "before the lake"

FAULTS: Final = (LOST, DUPLICATED, MISROUTED)

_CRASH: Final = "crash"
"""A crash loses operations that have no commit of their own, such as locks. Those that
the audit uses are part of a commit."""


def blind_gaps(logs: OperationLogs) -> list[LogGap]:
    """The gaps that hide what the audit looks for. What retention removed from the
    beginning of a log is none: the log begins later."""
    found = [gap for gap in logs.gaps if gap.why != _CRASH]
    begun: set[str] = set()
    blind = []
    for gap in found:
        if gap.why == RETENTION and gap.source not in begun and _is_first(gap, logs):
            continue
        begun.add(gap.source)
        blind.append(gap)
    return blind


def _is_first(gap: LogGap, logs: OperationLogs) -> bool:
    """Nothing that can be read is older than the gap."""
    [source] = [one for one in logs.sources if one.source == gap.source]
    first = source.first_occurred_at
    return first is None or gap.until is None or gap.until <= first


def judged(
    suspicions: "DataFrame",
    logs: OperationLogs,
    offsets: ClockOffsets,
    tolerance: timedelta,
) -> "DataFrame":
    """The suspicions, with a column `finding`."""
    from pyspark.sql import functions as F

    # By the primary's clock, as far as it is known.
    own = F.expr(
        f"at - make_dt_interval(0, 0, 0, IF(is_by_secondary, {offsets.secondary}, "
        f"{offsets.senders}))"
    )
    timed = suspicions.withColumn("own", own)
    finding = f"""
    CASE
      WHEN suspicion = '{STRAY}' THEN '{MISROUTED}'
      WHEN suspicion = '{DOUBLED}' THEN '{DUPLICATED}'
      WHEN suspicion = '{ABSENT}' AND {_in_open_tail(logs, tolerance)}
        THEN '{OPEN_TAIL}'
      WHEN suspicion = '{ABSENT}' AND ({_over_gap(logs)}) THEN '{UNKNOWN}'
      WHEN suspicion = '{ABSENT}' AND ({_before_log(logs)}) THEN '{BEFORE_LOG}'
      WHEN suspicion = '{ABSENT}' THEN '{LOST}'
      WHEN {_began_late(logs)} THEN '{BEFORE_LOG}'
      ELSE '{UNKNOWN}'
    END
    """
    return timed.withColumn("finding", F.expr(finding)).drop("own")


def _moment(moment: datetime) -> str:
    return f"timestamp_micros({int(moment.timestamp() * 1_000_000)}L)"


def _in_open_tail(logs: OperationLogs, tolerance: timedelta) -> str:
    until = logs.complete_until()
    return "true" if until is None else f"own >= {_moment(until - tolerance)}"


def _over_gap(logs: OperationLogs) -> str:
    """Any gap of its namespace: a message may come late, and clocks may jump, so the
    time of a gap does not tell that it was not in there. A gap of a send log hides
    what was sent, and not where it is."""
    return _any_of(
        f"(namespace = {_text(gap.namespace)} OR is_diverted)"
        for gap in blind_gaps(logs)
        if gap.kind == STORE
    )


def _before_log(logs: OperationLogs) -> str:
    """Sent before the first operation that the log of its namespace has, if that log
    does not begin with the store."""
    return _any_of(
        f"(namespace = {_text(source.namespace)} AND own < "
        f"{_moment(source.first_occurred_at)})"
        for source in logs.stores()
        if _is_late(source.first_batch, logs, source.source)
        and source.first_occurred_at is not None
    )


def _began_late(logs: OperationLogs) -> str:
    return _any_of(
        f"namespace = {_text(source.namespace)}"
        for source in logs.stores()
        if _is_late(source.first_batch, logs, source.source)
    )


def _is_late(first_batch: int, logs: OperationLogs, source: str) -> bool:
    removed = any(gap.source == source and gap.why == RETENTION for gap in logs.gaps)
    return first_batch > 1 or removed


def _any_of(parts: Iterable[str]) -> str:
    return " OR ".join(parts) or "false"


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
