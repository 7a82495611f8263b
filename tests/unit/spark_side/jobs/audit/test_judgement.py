"""Which gaps hide what the audit looks for."""

from datetime import UTC, datetime, timedelta
from typing import Any

from twinbus.spark.jobs.audit.judgement import blind_gaps
from twinbus.spark.jobs.operation_logs import LogGap, LogSource, OperationLogs

AT = datetime(2026, 11, 1, tzinfo=UTC)


def logs(*gaps: LogGap) -> OperationLogs:
    source = LogSource(
        source="store-1",
        kind="store",
        namespace="site-a",
        segments=3,
        rows=3,
        first_batch=1,
        first_occurred_at=AT,
        last_occurred_at=AT + timedelta(hours=3),
        complete_until=AT + timedelta(hours=3),
    )
    return OperationLogs(segments=(), sources=(source,), gaps=gaps)


def gap(why: str, **times: Any) -> LogGap:
    known = {"since": None, "until": None, **times}
    return LogGap(
        source="store-1", kind="store", namespace="site-a", why=why, what="", **known
    )


def test_a_crash_hides_nothing_that_is_part_of_a_commit() -> None:
    assert blind_gaps(logs(gap("crash", since=AT, until=AT))) == []


def test_what_retention_removed_from_the_beginning_hides_nothing_of_the_rest() -> None:
    removed = [gap("retention", until=AT - timedelta(hours=hours)) for hours in (2, 1)]
    assert blind_gaps(logs(*removed)) == []


def test_what_retention_removed_from_the_middle_is_blind() -> None:
    middle = gap("retention", since=AT, until=AT + timedelta(hours=1))
    assert blind_gaps(logs(middle)) == [middle]


def test_a_missing_beginning_is_blind() -> None:
    missing = gap("missing", until=AT)
    assert blind_gaps(logs(missing)) == [missing]
