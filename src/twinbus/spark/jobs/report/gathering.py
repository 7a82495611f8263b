"""Asks Spark for all that a report shows.

Times are cut to whole hours: an hour is looked at as a whole or not at all, so rows
that come late change the hours that they belong to, and no others.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from twinbus.spark.jobs.meter.hourly_use import (
    billed_by,
    grouped_operations,
    hourly_use,
)
from twinbus.spark.jobs.meter.price_book import price_book
from twinbus.spark.jobs.operation_logs import OperationLogs
from twinbus.spark.jobs.operation_rows import rows_of
from twinbus.spark.jobs.report import measures, reckoning, tables
from twinbus.spark.jobs.report.findings import Findings
from twinbus.spark.jobs.report.options import LOOK_BACK_HOURS, ReportOptions
from twinbus.spark.jobs.report.reckoning import HOUR_SECONDS
from twinbus.spark.jobs.report.remarks import remarks_on
from twinbus.spark.jobs.report.resubmission import NUMBERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Show = Callable[[str], None]
"""Told what is being done."""


class Gathering:
    """The questions of one report, and their answers."""

    def __init__(
        self,
        spark: "SparkSession",
        logs: OperationLogs,
        options: ReportOptions,
        show: Show,
    ) -> None:
        self._books = [price_book(name) for name in options.books]
        self._spark = spark
        self._logs = logs
        self._options = options
        self._show = show
        self._first, self._last = span_of(logs, options)
        # What is looked at: from, and until before.
        self.hours = _whole_hours(self._first, self._last)
        since, until = self.hours
        self._step = reckoning.step_for((self._last - self._first).total_seconds())
        # Steps that add up to hours, and those of long reports that are added up.
        self._grain = min(self._step, HOUR_SECONDS)
        early = since - timedelta(hours=LOOK_BACK_HOURS)
        used = [one for one in logs.segments if _overlaps(one, early, until)]
        self._rows = rows_of(spark, replace(logs, segments=tuple(used))).where(
            f"occurred_at >= {_literal(early)} AND occurred_at < {_literal(until)}"
        )
        self._in_time = self._rows.where(f"occurred_at >= {_literal(since)}")
        # Of diverted messages, one row each: asked for by several questions.
        self._detours = measures.detours(self._rows).persist()
        self._tables: dict[str, Any] = {}
        # Steps, as Spark has counted them.
        self._dead_letters_reduced: Any = None

    def findings(self) -> Findings:
        """Ask all questions."""
        try:
            for step, question in self._questions():
                self._show(step)
                question()
        finally:
            self._detours.unpersist()
        self._put(tables.LOG_SOURCES, reckoning.log_sources(self._logs))
        self._put(tables.LOG_GAPS, reckoning.log_gaps(self._logs))
        is_empty = self._tables["volumes"].num_rows == 0
        whole = reckoning.histograms(self._tables["latencies"], ("measure",))
        found = Findings(
            title=self._options.title,
            first_at=None if is_empty else self._first,
            last_at=None if is_empty else self._last,
            step_seconds=self._step,
            tables=self._tables,
            histograms={key[0]: item for key, item in whole.items()},
            books=self._books,
            sources=self._logs.sources,
            gaps=self._logs.gaps,
            remarks=(),
        )
        return replace(found, remarks=remarks_on(found))

    def _questions(self) -> Iterator[tuple[str, Callable[[], None]]]:
        yield "counting operations", self._volumes
        yield "comparing fragments", self._fragments
        yield "ranking sessions", self._sessions
        yield "counting dead letters", self._dead_letters
        yield "looking at dead letters", self._samples
        yield "measuring latencies", self._latencies
        yield "looking for outages", self._outages
        yield "reckoning costs", self._costs

    def _put(self, table: tables.ReportTable, found: Any) -> None:
        self._tables[table.name] = found

    def _volumes(self) -> None:
        reduced = measures.volumes(self._in_time, self._grain).toArrow()
        self._put(tables.VOLUMES, reckoning.hours_of(tables.VOLUMES, reduced))
        since = _literal(self.hours[0])
        back = measures.restored(self._detours, since, self._grain).toArrow()
        self._put(tables.COURSE, reckoning.course(reduced, back, self._step))

    def _fragments(self) -> None:
        reduced = measures.fragments(self._in_time, HOUR_SECONDS).toArrow()
        hours = reckoning.hours_of(tables.FRAGMENTS, reduced)
        self._put(tables.FRAGMENTS, hours)
        self._put(tables.SKEW, reckoning.skew(hours))

    def _sessions(self) -> None:
        reduced = measures.sessions(self._in_time, self._options.session_count)
        found = reckoning.ordered(tables.SESSIONS, reduced.toArrow())
        order = ("namespace", "entity", "rank")
        self._put(tables.SESSIONS, found.sort_by([(n, "ascending") for n in order]))

    def _dead_letters(self) -> None:
        reduced = measures.dead_letters(self._in_time, self._grain).toArrow()
        hours = reckoning.hours_of(tables.DEAD_LETTERS, reduced)
        self._put(tables.DEAD_LETTERS, hours)
        steps = reckoning.dead_letter_course(reduced, self._step)
        self._put(tables.DEAD_LETTER_COURSE, steps)
        self._dead_letters_reduced = reduced

    def _samples(self) -> None:
        count = max(self._options.sample_count, NUMBERS)
        newest = measures.newest_dead_letters(self._in_time, count).toArrow()
        groups = reckoning.dead_letter_groups(self._dead_letters_reduced, newest)
        self._put(tables.DEAD_LETTER_GROUPS, groups)
        wanted = self._options.sample_count
        samples = [row for row in newest.to_pylist() if row["place"] <= wanted]
        uids = sorted({row["message_uid"] for row in samples if row["message_uid"]})
        rows = []
        if uids:
            rows = measures.rows_of_messages(self._rows, uids).toArrow().to_pylist()
        self._put(
            tables.DEAD_LETTER_SAMPLES, reckoning.dead_letter_samples(samples, rows)
        )

    def _latencies(self) -> None:
        reduced = measures.latencies(
            self._rows, self._detours, _literal(self.hours[0]), self._grain
        ).toArrow()
        self._put(tables.LATENCIES, reckoning.hours_of(tables.LATENCIES, reduced))
        self._put(tables.PERCENTILES, reckoning.percentiles(reduced))
        course = reckoning.latency_course(reduced, self._step)
        self._put(tables.LATENCY_COURSE, course)

    def _outages(self) -> None:
        gap = self._options.outage_gap_seconds
        spells = measures.outages(self._in_time, self._detours, gap).toArrow()
        found = reckoning.outages(spells, self._returns(spells))
        self._put(tables.OUTAGES, found)

    def _costs(self) -> None:
        groups = grouped_operations(self._in_time, self._books)
        use = hourly_use(groups, self._books)
        billed = billed_by(use, self._books, ()).withColumnRenamed("hour_start", "at")
        keys = ("at", "book", "namespace", "entity", "kind")
        reduced = billed.groupBy(*keys).agg({"billed": "sum", "cost": "sum"})
        named = reduced.withColumnsRenamed(
            {"sum(billed)": "billed", "sum(cost)": "cost"}
        ).toArrow()
        self._put(tables.COSTS, reckoning.hours_of(tables.COSTS, named))

    def _returns(self, spells: Any) -> list[dict[str, Any]]:
        """How outages ended. `spells` is small, and goes back to Spark as it is."""
        if not spells.num_rows:
            return []
        known = self._spark.createDataFrame(spells)
        ends = measures.returns(self._in_time, self._detours, known).toArrow()
        rows: list[dict[str, Any]] = ends.to_pylist()
        return rows


def span_of(logs: OperationLogs, options: ReportOptions) -> tuple[datetime, datetime]:
    """The times of the first and last operation that are looked at."""
    firsts = [one.first_occurred_at for one in logs.sources if one.first_occurred_at]
    lasts = [one.last_occurred_at for one in logs.sources if one.last_occurred_at]
    first = min(firsts, default=datetime.fromtimestamp(0, UTC))
    last = max(lasts, default=first)
    if options.since is not None:
        first = max(first, options.since)
        last = max(last, first)
    if options.until is not None:
        last = min(last, options.until)
        first = min(first, last)
    return first, last


def _whole_hours(first: datetime, last: datetime) -> tuple[datetime, datetime]:
    end = reckoning.floored(last, HOUR_SECONDS)
    is_begun = last > end or last == first
    return (
        reckoning.floored(first, HOUR_SECONDS),
        end + timedelta(hours=1) if is_begun else end,
    )


def _overlaps(segment: Any, since: datetime, until: datetime) -> bool:
    first, last = segment.first_occurred_at, segment.last_occurred_at
    return not ((last and last < since) or (first and first >= until))


def _literal(at: datetime) -> str:
    return f"timestamp_micros({int(at.timestamp() * 1_000_000)})"
