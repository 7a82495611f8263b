"""What is said before the figures of a report."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from twinbus.spark.jobs.operation_logs import LogSource
from twinbus.spark.jobs.report.findings import Findings
from twinbus.spark.jobs.report.remarks import remarks_on

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)


def source(name: str, hours: int, *, is_closed: bool = False) -> LogSource:
    return LogSource(
        source=name,
        kind=name.partition("-")[0],
        namespace="site-a",
        segments=1,
        rows=1,
        first_batch=1,
        first_occurred_at=AT,
        last_occurred_at=AT,
        complete_until=AT + timedelta(hours=hours),
        is_closed=is_closed,
    )


def remarks(*sources: LogSource) -> str:
    findings = Findings(
        title="",
        first_at=AT,
        last_at=AT,
        step_seconds=60,
        tables={"outages": pa.table({"back_at": pa.array([], pa.timestamp("us"))})},
        histograms={},
        books=(),
        sources=sources,
        gaps=(),
        remarks=(),
    )
    return " ".join(remarks_on(findings))


def test_a_log_that_ends_before_the_others_is_worth_a_word() -> None:
    assert "The log of sender-1 ends" in remarks(
        source("store-1", 3), source("sender-1", 1)
    )


def test_a_sender_that_closed_its_log_has_no_more_to_say() -> None:
    closed = source("sender-1", 1, is_closed=True)
    assert remarks(source("store-1", 3), closed) == ""
