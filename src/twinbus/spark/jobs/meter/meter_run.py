"""Metering as a job: one pass over the logs, then price books on a small table.

Hours are computed as a whole and replaced as a whole: what comes late changes the hour
that it belongs to, and the same logs give the same tables.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from twinbus.clock import SystemClock
from twinbus.spark.jobs.job_session import job_session
from twinbus.spark.jobs.log_notes import check_namespaces, gap_lines, shown_instant
from twinbus.spark.jobs.meter.hourly_use import (
    billed_by,
    grouped_operations,
    hourly_use,
    open_hours,
)
from twinbus.spark.jobs.meter.meter_options import MeterOptions
from twinbus.spark.jobs.meter.meter_summary import BilledLine, BookTotal, MeterSummary
from twinbus.spark.jobs.meter.pair_costs import observed_cost, supposed_cost
from twinbus.spark.jobs.meter.pair_use import pair_use
from twinbus.spark.jobs.meter.price_book import PriceBook, price_book
from twinbus.spark.jobs.operation_logs import find_logs
from twinbus.spark.jobs.operation_rows import rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LINES: Final = 10_000
"""Lines of a summary; the table has all of them."""

_ORDER: Final = ("book", "namespace", "entity", "kind", "key_name", "purpose")


def run(
    spark: "SparkSession",
    options: MeterOptions,
    progress: Callable[[str], None] = lambda step: None,
) -> MeterSummary:
    """Meter some logs. Raises OperationLogError and PriceBookError, before anything is
    written."""
    clock = SystemClock()
    began = clock.monotonic()
    books = [price_book(name) for name in options.books]
    progress("checking the segments")
    logs = find_logs(options.logs, damaged_is_gap=options.damaged_is_gap)
    check_namespaces(logs, options.namespaces)
    hours = open_hours(logs)
    with job_session(spark, logs.rows):
        rows = rows_of(spark, logs)
        progress("counting operations")
        groups = grouped_operations(rows, books).persist()
        try:
            use = hourly_use(groups, books)
            billed = billed_by(use, books, hours)
            totals, lines = _totals(billed, books)
            metered = use.select("hour_start").distinct().count()
            if options.output is not None:
                progress("writing tables")
                _write(spark, billed, options.output, options.has_csv)
            progress("looking at the pair")
            pair = pair_use(groups)
        finally:
            groups.unpersist()
    now, then = options.pair, options.what_if
    return MeterSummary(
        totals=totals,
        lines=lines,
        pair=pair,
        pair_costs=tuple(observed_cost(pair, book, now) for book in books)
        if pair
        else (),
        what_if=tuple(supposed_cost(pair, book, now, then) for book in books)
        if pair and then
        else (),
        rows=logs.rows,
        hours=metered,
        open_hours=tuple(str(shown_instant(hour)) for hour in hours),
        gaps=gap_lines(logs.gaps),
        seconds=(clock.monotonic() - began) / 1000,
    )


def _totals(
    billed: "DataFrame", books: Sequence[PriceBook]
) -> tuple[tuple[BookTotal, ...], tuple[BilledLine, ...]]:
    from pyspark.sql import functions as F

    sums = [F.sum(name).alias(name) for name in ("interactions", "billed", "cost")]
    of_entities = billed.groupBy("book", "namespace", "entity", "kind").agg(*sums)
    order = (F.desc("billed"), "book", "namespace", "entity", "kind")
    lines = tuple(
        BilledLine(
            book=row["book"],
            namespace=row["namespace"],
            entity=row["entity"],
            kind=row["kind"],
            interactions=int(row["interactions"]),
            billed=float(row["billed"]),
            cost=float(row["cost"]),
        )
        for row in of_entities.orderBy(*order).limit(_LINES).collect()
    )
    of_books = {row["book"]: row for row in billed.groupBy("book").agg(*sums).collect()}
    totals = tuple(
        BookTotal(
            book=book.name,
            title=book.title,
            currency=book.currency,
            billed=float(of_books[book.name]["billed"]) if book.name in of_books else 0,
            cost=float(of_books[book.name]["cost"]) if book.name in of_books else 0,
        )
        for book in books
    )
    return totals, lines


def _write(
    spark: "SparkSession", billed: "DataFrame", folder: str, has_csv: bool
) -> None:
    """One file for each hour, in order, in place of what was there for that hour."""
    ordered = billed.repartition("date", "hour").sortWithinPartitions(*_ORDER)
    writer = ordered.write.mode("overwrite").partitionBy("date", "hour")
    writer.option("partitionOverwriteMode", "dynamic").parquet(f"{folder}/billed")
    if has_csv:
        # Of the whole table, hours of earlier runs included.
        every = spark.read.parquet(f"{folder}/billed")
        listed = every.coalesce(1).sortWithinPartitions("date", "hour", *_ORDER)
        listed.write.mode("overwrite").option("header", True).csv(
            f"{folder}/billed-csv"
        )
