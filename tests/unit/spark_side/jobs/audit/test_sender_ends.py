"""A sender whose log just stops is running, or nobody knows what it sent since."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bench.operation_log_writer import LogWriter
from twinbus.spark.jobs.audit.clock_offsets import ClockOffsets
from twinbus.spark.jobs.audit.judgement import blind_gaps
from twinbus.spark.jobs.audit.sender_ends import with_sender_ends
from twinbus.spark.jobs.operation_logs import LogSource, OperationLogs, find_logs

END = datetime(2026, 11, 1, 12, tzinfo=UTC)
"""Of the stores' logs."""
MINUTE = timedelta(minutes=1)
SAME = ClockOffsets()


def source(name: str, until: datetime | None, *, is_closed: bool = False) -> LogSource:
    return LogSource(
        source=name,
        kind=name.partition("-")[0],
        namespace="site-a",
        segments=1,
        rows=1,
        first_batch=1,
        first_occurred_at=END - timedelta(hours=3),
        last_occurred_at=until,
        complete_until=until,
        is_closed=is_closed,
    )


def logs(*senders: LogSource) -> OperationLogs:
    stores = (source("store-1", END), source("store-2", END + timedelta(hours=1)))
    return OperationLogs(segments=(), sources=(*stores, *senders), gaps=())


def test_a_sender_that_stopped_early_without_a_word_is_a_blind_gap() -> None:
    stopped = source("sender-1", END - 2 * MINUTE)
    ends = with_sender_ends(logs(stopped), SAME, MINUTE)
    [gap] = blind_gaps(ends.logs)
    assert (gap.source, gap.kind, gap.namespace) == ("sender-1", "sender", "site-a")
    assert (gap.why, gap.what) == (
        "unclosed",
        "the sender ended without closing its log",
    )
    assert (gap.since, gap.until) == (END - 2 * MINUTE, END)
    assert ends.open_count == 0


def test_a_sender_that_closed_its_log_has_an_end() -> None:
    closed = source("sender-1", END - timedelta(hours=2), is_closed=True)
    ends = with_sender_ends(logs(closed), SAME, MINUTE)
    assert (ends.logs.gaps, ends.open_count) == ((), 0)


def test_a_sender_near_the_end_of_the_shortest_log_may_be_running() -> None:
    running = source("sender-1", END - MINUTE)
    ends = with_sender_ends(logs(running), SAME, MINUTE)
    assert (ends.logs.gaps, ends.open_count) == ((), 1)


def test_a_running_sender_has_time_for_its_next_file_whatever_the_tolerance() -> None:
    last = timedelta(seconds=20)
    running = source("sender-1", END - last)
    assert with_sender_ends(logs(running), SAME, timedelta(0)).open_count == 1
    stopped = source("sender-1", END - 2 * last)
    assert with_sender_ends(logs(stopped), SAME, timedelta(0)).open_count == 0


@pytest.mark.parametrize(("ahead", "gaps"), [(-240.0, 0), (0.0, 1), (240.0, 1)])
def test_the_clock_of_senders_is_taken_into_account(ahead: float, gaps: int) -> None:
    """It says that it is four minutes earlier, as all of its log does."""
    one = source("sender-1", END - 4 * MINUTE)
    ends = with_sender_ends(logs(one), ClockOffsets(senders=ahead), MINUTE)
    assert len(ends.logs.gaps) == gaps


def test_each_sender_is_looked_at_by_itself() -> None:
    there = logs(
        source("sender-1", END - timedelta(hours=1)),
        source("sender-2", END - timedelta(hours=1), is_closed=True),
        source("sender-3", END),
        source("sender-4", None),
    )
    ends = with_sender_ends(there, SAME, MINUTE)
    assert [gap.source for gap in ends.logs.gaps] == ["sender-1", "sender-4"]
    assert ends.open_count == 1


def test_no_sender_is_early_if_nobody_knows_how_far_the_stores_go() -> None:
    there = logs(source("sender-1", END - timedelta(hours=1)))
    first, *others = there.sources
    there = replace(there, sources=(replace(first, complete_until=None), *others))
    assert with_sender_ends(there, SAME, MINUTE).logs.gaps == ()


def test_only_the_last_segment_closes_a_log(tmp_path: Path) -> None:
    row = {"occurred_at": END, "operation": "send", "entity": "orders"}
    writer = LogWriter(tmp_path, "site-a", kind="sender")
    writer.write_rows([row])
    assert not find_logs([tmp_path]).sources[0].is_closed
    last = writer.write_rows([row], is_last=True)
    assert find_logs([tmp_path]).sources[0].is_closed
    last.unlink()
    assert not find_logs([tmp_path]).sources[0].is_closed
