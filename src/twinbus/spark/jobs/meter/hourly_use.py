"""Interactions per hour, counted once for all price books.

A row of a store is an interaction with the bus. What a paired sender notes in its own
log is in the log of the store, too, except a ping that nobody answered: that one is
counted from the sender's log.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from twinbus.spark.jobs.meter.price_book import PriceBook
from twinbus.spark.jobs.operation_logs import OperationLogs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PLACE: Final = ("namespace", "entity", "entity_kind", "kind", "key_name", "purpose")
"""What is billed apart, besides the hour."""

BILLED: Final = (
    "book string, hour_start timestamp, namespace string, entity string, "
    "entity_kind string, kind string, key_name string, purpose string, "
    "interactions bigint, bytes bigint, billed double, cost double, "
    "is_complete boolean, date string, hour string"
)
"""The columns of the table `billed`; it is partitioned by the last two."""

_COUNTED: Final = (
    "(is_store AND (result IN ('ok', 'empty') OR kind = 'ping')) OR "
    "(NOT is_store AND kind = 'ping' AND result IN ('failed', 'unknown'))"
)


def grouped_operations(rows: "DataFrame", books: Sequence[PriceBook]) -> "DataFrame":
    """The one pass over the logs: all that bills and pairs are reckoned from.

    One row for each hour, place, result and kind of log. Pings have one for each client
    as well: how many there are is what an outage costs.
    """
    from pyspark.sql import functions as F

    amount = "coalesce(amount, 1L)"
    units = [
        F.expr(
            f"sum({amount} * greatest(1L, CAST(ceil(coalesce(size_bytes, 0) / "
            f"{size}) AS BIGINT)))"
        ).alias(_units(size))
        for size in _sizes(books)
    ]
    renamed = rows.withColumnRenamed("operation", "kind")
    return renamed.groupBy(
        F.expr("date_trunc('HOUR', occurred_at)").alias("hour_start"),
        *PLACE,
        "result",
        F.expr("source LIKE 'store-%'").alias("is_store"),
        F.expr("IF(kind = 'ping', coalesce(client, source), NULL)").alias("pinger"),
    ).agg(
        F.expr(f"sum({amount})").alias("interactions"),
        F.expr("sum(coalesce(size_bytes, 0L))").alias("bytes"),
        F.expr("count(*)").alias("rows"),
        F.expr("min(unix_micros(occurred_at))").alias("first_at"),
        F.expr("max(unix_micros(occurred_at))").alias("last_at"),
        *units,
    )


def hourly_use(groups: "DataFrame", books: Sequence[PriceBook]) -> "DataFrame":
    """One row for each hour and place, with the units of each size that a book has."""
    from pyspark.sql import functions as F

    names = ["interactions", "bytes", *(_units(size) for size in _sizes(books))]
    return (
        groups.where(_COUNTED)
        .groupBy("hour_start", *PLACE)
        .agg(*(F.sum(name).alias(name) for name in names))
    )


def _sizes(books: Sequence[PriceBook]) -> list[int]:
    return sorted({book.unit_bytes for book in books if book.unit_bytes})


def _units(size: int) -> str:
    return f"units_{size}"


def billed_by(
    use: "DataFrame", books: Sequence[PriceBook], open_hours: Iterable[datetime]
) -> "DataFrame":
    """The table `billed`: each book's operations of each hour and place."""
    from functools import reduce

    from pyspark.sql import functions as F

    moments = ", ".join(_moment(hour) for hour in sorted(set(open_hours)))
    is_open = f"hour_start IN ({moments})" if moments else "false"
    tables = []
    for book in books:
        counted = use.withColumn("billed", F.expr(_billed(book)))
        tables.append(
            counted.where("billed <> 0").select(
                F.lit(book.name).alias("book"),
                "hour_start",
                *PLACE,
                "interactions",
                "bytes",
                "billed",
                F.expr(f"billed * {book.price_per_million!r}D / 1000000D").alias(
                    "cost"
                ),
                F.expr(f"NOT ({is_open})").alias("is_complete"),
                F.expr("date_format(hour_start, 'yyyy-MM-dd')").alias("date"),
                F.expr("date_format(hour_start, 'HH')").alias("hour"),
            )
        )
    return reduce(lambda one, other: one.unionByName(other), tables)


def _billed(book: PriceBook) -> str:
    cases = []
    for kind, count in sorted(book.counts.items()):
        is_sized = kind in book.by_size and book.unit_bytes
        amount = _units(book.unit_bytes) if is_sized else "interactions"
        cases.append(f"WHEN '{kind}' THEN {count!r}D * {amount}")
    return f"CASE kind {' '.join(cases)} ELSE 0D END"


def _moment(moment: datetime) -> str:
    return f"timestamp_micros({int(moment.timestamp() * 1_000_000)}L)"


def open_hours(logs: OperationLogs) -> list[datetime]:
    """Hours whose bills may still grow, or are over a gap: of no use as a total."""
    found: set[datetime] = set()
    for source in logs.sources:
        last, until = source.last_occurred_at, source.complete_until
        if last is not None and until is not None:
            found.update(_hours(until, max(last, until)))
    first, last = _bounds(logs)
    if first is not None and last is not None:
        for gap in logs.gaps:
            found.update(_hours(gap.since or first, gap.until or last))
    return sorted(found)


def _bounds(logs: OperationLogs) -> tuple[datetime | None, datetime | None]:
    firsts = [one.first_occurred_at for one in logs.sources if one.first_occurred_at]
    lasts = [one.last_occurred_at for one in logs.sources if one.last_occurred_at]
    return min(firsts, default=None), max(lasts, default=None)


def _hours(since: datetime, until: datetime) -> Iterable[datetime]:
    """All hours from that of one moment to that of another."""
    hour = since.replace(minute=0, second=0, microsecond=0)
    while hour <= until:
        yield hour
        hour += timedelta(hours=1)
