"""Which hours are not complete."""

from datetime import UTC, datetime, timedelta

from twinbus.spark.jobs.meter.hourly_use import open_hours
from twinbus.spark.jobs.operation_logs import LogGap, LogSource, OperationLogs

AT = datetime(2026, 11, 1, 10, 30, tzinfo=UTC)


def source(complete_until: datetime) -> LogSource:
    return LogSource(
        source="store-1",
        kind="store",
        namespace="site-a",
        segments=1,
        rows=1,
        first_batch=1,
        first_occurred_at=AT - timedelta(hours=5),
        last_occurred_at=AT,
        complete_until=complete_until,
    )


def hours(*gaps: LogGap, complete_until: datetime) -> list[int]:
    logs = OperationLogs(segments=(), sources=(source(complete_until),), gaps=gaps)
    return [hour.hour for hour in open_hours(logs)]


def test_the_hour_in_which_a_log_ends_is_open() -> None:
    assert hours(complete_until=AT) == [10]


def test_an_hour_is_complete_when_the_log_is_complete_beyond_its_end() -> None:
    assert hours(complete_until=AT + timedelta(hours=1)) == [11]


def test_hours_after_a_log_was_complete_are_open() -> None:
    assert hours(complete_until=AT - timedelta(hours=2)) == [8, 9, 10]


def test_hours_of_a_gap_are_not_complete() -> None:
    gap = LogGap(
        source="store-1",
        kind="store",
        namespace="site-a",
        why="missing",
        what="segments 2 to 2",
        since=AT - timedelta(hours=3),
        until=AT - timedelta(hours=2),
    )
    assert hours(gap, complete_until=AT) == [7, 8, 10]
