"""Senders that did not close their logs: they run, were killed, or a file is lost.

Nothing says what such a sender has sent since. Near the end of the stores' logs that is
the open tail, as with everything else there. If the stores' logs go on for longer, it
is a gap until their end.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from twinbus.spark.jobs.audit.clock_offsets import ClockOffsets
from twinbus.spark.jobs.operation_logs import LogGap, LogSource, OperationLogs
from twinbus.spark.jobs.segment_files import SENDER

UNCLOSED: Final = "unclosed"

_LATE: Final = timedelta(seconds=30)
"""A running sender says every ten seconds how far its log reaches. It is given so much
at least, whatever the tolerance of the audit is."""


@dataclass(frozen=True, slots=True)
class SenderEnds:
    """Logs with the gaps of senders that ended, nobody knows when."""

    logs: OperationLogs
    # Senders that may be running.
    open_count: int


def with_sender_ends(
    logs: OperationLogs, offsets: ClockOffsets, tolerance: timedelta
) -> SenderEnds:
    """Add a gap for each sender whose log ends too early, and was not closed."""
    unclosed = [one for one in logs.sources if one.kind == SENDER and not one.is_closed]
    ahead = timedelta(seconds=offsets.senders)
    gaps = [
        _gap(one, logs, ahead)
        for one in unclosed
        if _is_early(one, logs, ahead, max(tolerance, _LATE))
    ]
    return SenderEnds(
        replace(logs, gaps=(*logs.gaps, *gaps)), len(unclosed) - len(gaps)
    )


def _is_early(
    source: LogSource, logs: OperationLogs, ahead: timedelta, late: timedelta
) -> bool:
    end = logs.complete_until()
    if end is None:
        # Nothing is judged to be missing.
        return False
    until = source.complete_until
    return until is None or until - ahead < end - late


def _gap(source: LogSource, logs: OperationLogs, ahead: timedelta) -> LogGap:
    """By the sender's clock, as all times of its log."""
    end = logs.complete_until()
    return LogGap(
        source=source.source,
        kind=source.kind,
        namespace=source.namespace,
        why=UNCLOSED,
        what="the sender ended without closing its log",
        since=source.complete_until,
        until=None if end is None else end + ahead,
    )
