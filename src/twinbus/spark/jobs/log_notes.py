"""What jobs say about the logs that they were given."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from twinbus.spark.jobs.operation_logs import LogGap, OperationLogs
from twinbus.spark.jobs.segment_files import OperationLogError


def shown_instant(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="milliseconds")


def gap_lines(gaps: Iterable[LogGap]) -> tuple[str, ...]:
    """One line for each gap: whose, what, why, and of which time."""
    return tuple(
        f"{gap.namespace or 'unnamed'}, {gap.source}: {gap.what} ({gap.why}), "
        f"from {shown_instant(gap.since) or 'the beginning'} "
        f"to {shown_instant(gap.until) or 'the end'}"
        for gap in gaps
    )


def check_namespaces(logs: OperationLogs, expected: Sequence[str]) -> None:
    """Raises OperationLogError if there is a log of a namespace that was not asked for,
    or none of one that was."""
    there = set(logs.namespaces)
    strange = sorted(there - set(expected))
    if expected and strange:
        raise OperationLogError(
            f"There are logs of {', '.join(strange)}, and only those of "
            f"{', '.join(expected)} were asked for."
        )
    missing = sorted(set(expected) - there)
    if missing:
        raise OperationLogError(
            f"There is no log of {', '.join(missing)}; the folders have logs of "
            f"{', '.join(sorted(there)) or 'no namespace'}."
        )
