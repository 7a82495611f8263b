"""Metering: the figures of the documents, from rows to tables."""

import csv
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bench.operation_log_writer import LogWriter
from twinbus.spark.jobs.meter import MeterOptions, MeterSummary, run
from twinbus.spark.jobs.meter.pair_costs import CostSettings
from twinbus.spark.jobs.meter.price_book import PriceBookError
from twinbus.spark.jobs.segment_files import OperationLogError

AT = datetime(2026, 11, 1, tzinfo=UTC)
BACKLOG = [f"site-a/x-servicebus-transfer/{number}" for number in range(10)]


def metered(spark: SparkSession, *folders: Path, **options: Any) -> MeterSummary:
    logs = tuple(str(folder) for folder in folders)
    return run(spark, MeterOptions(logs=logs, **options))


def row(
    operation: str, entity: str | None, seconds: float, **columns: Any
) -> dict[str, Any]:
    return {
        "operation": operation,
        "entity": entity,
        "entity_kind": "queue",
        "occurred_at": AT + timedelta(seconds=seconds),
        "key_name": "clients",
        **columns,
    }


def polls(hours: int) -> list[dict[str, Any]]:
    return [
        row("receive_empty", queue, 900 * quarter, result="empty", purpose="syphon")
        for quarter in range(hours * 4)
        for queue in BACKLOG
    ]


def life(entity: str, size_bytes: int, seconds: float, **columns: Any) -> list[Any]:
    common = {"size_bytes": size_bytes, **columns}
    return [
        row("send", entity, seconds, **common),
        row("lock", entity, seconds + 1, **common),
        row("complete", entity, seconds + 2, **common),
    ]


def billed(summary: MeterSummary, book: str, entity: str | None = None) -> float:
    return sum(
        line.billed
        for line in summary.lines
        if line.book == book and entity in (None, line.entity)
    )


def test_ten_idle_queues_cost_40_an_hour_and_960_a_day(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = LogWriter(tmp_path / "b", "site-b")
    looks = [
        row("administration", None, 60 * minute, purpose="syphon")
        for minute in range(24 * 60)
    ]
    log.write_rows([*polls(24), *looks], complete_until=AT + timedelta(days=1))
    out = tmp_path / "out"
    then = CostSettings(backlog_queue_count=5, syphon_hosts=2)
    summary = metered(spark, tmp_path / "b", output=str(out), what_if=then)
    table = spark.read.parquet(str(out / "billed")).where("book = 'documents'")
    hours = table.groupBy("date", "hour").sum("billed").collect()
    assert {found["sum(billed)"] for found in hours} == {40.0}
    assert len(hours) == 24
    assert billed(summary, "documents") == 960
    assert billed(summary, "service") == 960 + 1440
    [documents, service] = summary.pair_costs
    assert (documents.idle_of_30_days, service.idle_of_30_days) == (28_800, 72_000)
    [documents, service] = summary.what_if
    assert documents.idle_of_30_days == 28_800
    assert service.idle_of_30_days == 28_800 + 2 * 43_200


def test_messages_cost_what_the_books_say(spark: SparkSession, tmp_path: Path) -> None:
    """A message through the backlog, a plain one, a partitioned one, and pings."""
    size = {"size_bytes": 1_000}
    back = {**size, "purpose": "syphon", "key_name": "syphon"}
    store = LogWriter(tmp_path / "a", "site-a")
    partitioned = {"fragment": 11, "sequence_number": (11 << 48) + 1}
    store.write_rows(
        [
            *life("plain", 200_000, 1),
            *life("partitioned", 200_000, 1, **partitioned),
            row("renew", "plain", 2, amount=3),
            row("arrive", "plain", 2, key_name=None),
            row("refuse", "plain", 3, result="refused", amount=7),
            row("restore", "orders", 10, **back),
            row("lock", "orders", 11, **size),
            row("complete", "orders", 12, **size),
        ],
        complete_until=AT + timedelta(hours=1),
    )
    secondary = LogWriter(tmp_path / "b", "site-b")
    secondary.write_rows(
        [
            row("divert", BACKLOG[0], 5, **size),
            row("lock", BACKLOG[0], 9, **back),
            row("complete", BACKLOG[0], 10, **back),
        ],
        complete_until=AT + timedelta(hours=1),
    )
    # One hour of an outage: 25 entities, 20 clients, a ping a minute each.
    senders = LogWriter(tmp_path / "s", "site-a", kind="sender")
    senders.write_rows(
        row(
            "ping",
            f"entity-{entity}",
            60 * minute,
            result="failed",
            client=f"client-{client}",
        )
        for minute in range(60)
        for entity in range(25)
        for client in range(20)
    )
    summary = metered(spark, *(tmp_path / name for name in "abs"))
    for book, once, detour in (("documents", 2, 4), ("service", 9, 6)):
        conventional = billed(summary, book, "plain")
        renewals = 3 if book == "service" else 0
        assert conventional == once + renewals
        assert billed(summary, book, "partitioned") == once
        way = billed(summary, book, "orders") + billed(summary, book, BACKLOG[0])
        assert way == detour
        pings = [line for line in summary.lines if line.kind == "ping"]
        assert sum(line.billed for line in pings if line.book == book) == 30_000
    [documents, service] = summary.pair_costs
    assert (documents.pings, documents.detours, service.detours) == (30_000, 2, 3)
    assert billed(summary, "documents", "plain") == 2


def test_a_client_of_an_outage_is_counted_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It has another name in the log of the store, which answers its last ping."""
    LogWriter(tmp_path / "a", "site-a").write_rows(
        [row("ping", "orders", 180, client=f"host:{port}") for port in (1, 2)]
    )
    for name in ("one", "two"):
        sender = LogWriter(tmp_path / "s", "site-a", kind="sender", name=name)
        answers = ("unknown", "failed", "ok")
        sender.write_rows(
            row("ping", "orders", 60 * minute, result=result)
            for minute, result in enumerate(answers, 1)
        )
    summary = metered(spark, tmp_path / "a", tmp_path / "s")
    assert billed(summary, "documents") == 6
    assert summary.pair is not None
    [outage] = summary.pair.outages
    assert (outage.pings, outage.clients, outage.seconds) == (6, 2, 120)


def test_what_comes_late_changes_its_hour_and_no_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = LogWriter(tmp_path / "a", "site-a")
    log.write_rows([*life("orders", 10, 0), *life("orders", 10, 3_600)])
    out = tmp_path / "out"
    options = {"books": ("documents",), "output": str(out), "has_csv": True}
    metered(spark, tmp_path / "a", **options)
    first = _files(out / "billed")
    metered(spark, tmp_path / "a", **options)
    assert _rows(spark, out) == {("00", 2.0, True), ("01", 2.0, False)}
    assert [path.parent for path in _files(out / "billed")] == [
        path.parent for path in first
    ]
    log.write_rows(life("orders", 10, 30), complete_until=AT + timedelta(hours=9))
    summary = metered(spark, tmp_path / "a", **options)
    assert _rows(spark, out) == {("00", 4.0, True), ("01", 2.0, True)}
    assert summary.hours == 2
    [file] = (out / "billed-csv").glob("*.csv")
    lines = list(csv.DictReader(file.read_text().splitlines()))
    assert sum(float(line["billed"]) for line in lines) == 6


def _files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.parquet"))


def _rows(spark: SparkSession, out: Path) -> set[tuple[str, float, bool]]:
    table = spark.read.option("recursiveFileLookup", False).parquet(str(out / "billed"))
    counted = table.groupBy("hour").agg({"billed": "sum", "is_complete": "min"})
    return {
        (f"{int(one['hour']):02d}", one["sum(billed)"], one["min(is_complete)"])
        for one in counted.collect()
    }


def test_hours_are_those_of_utc_wherever_the_driver_is(
    spark: SparkSession, tmp_path: Path
) -> None:
    LogWriter(tmp_path / "a", "site-a").write_rows(life("orders", 10, 1_000))
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        out = str(tmp_path / "out")
        metered(spark, tmp_path / "a", books=("documents",), output=out)
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Kolkata"
    finally:
        spark.conf.unset("spark.sql.session.timeZone")
    assert (tmp_path / "out" / "billed" / "date=2026-11-01" / "hour=00").is_dir()


def test_what_cannot_be_metered_is_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    LogWriter(tmp_path / "a", "site-a").write_rows(life("orders", 10, 0))
    out = tmp_path / "out"
    with pytest.raises(PriceBookError, match="documents, service"):
        metered(spark, tmp_path / "a", books=("nowhere.toml",), output=str(out))
    with pytest.raises(OperationLogError, match="no operation log"):
        metered(spark, tmp_path, output=str(out))
    assert not out.exists()
