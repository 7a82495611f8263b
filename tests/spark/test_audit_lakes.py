"""What a capture took out of the bus is in its lake, or the audit says what is not."""

import json
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from pyspark.sql import SparkSession

from bench.operation_log_writer import LogWriter
from twinbus.clock import SystemClock
from twinbus.log_export.blob_source import SqliteBlobs
from twinbus.log_export.export_run import ExportRun
from twinbus.log_export.exporter import ExportPlan
from twinbus.spark.jobs.audit import AuditOptions, AuditSummary, run
from twinbus.spark.jobs.audit.audit_summary import FOUND, PROVEN
from twinbus.spark.jobs.lake.errors import LakeDamaged, LakeError
from twinbus.spark.jobs.lake.manifest import LakePart, write_manifest
from twinbus.spark.jobs.operation_rows import read_operations

from .harness import Namespace, numbered
from .lakes import LakeTest

TOPIC = "billing/Subscriptions/twinbus-capture"


@pytest.fixture
def world(spark: SparkSession, namespace: Namespace, tmp_path: Path) -> LakeTest:
    namespace.bus.create_queue("orders")
    namespace.bus.create_topic("billing")
    return LakeTest(spark, namespace, tmp_path / "lake")


def audited(world: LakeTest, log: Path, **options: Any) -> AuditSummary:
    lakes = (str(world.folder),)
    given = AuditOptions(logs=(str(log),), lakes=lakes, tolerance_seconds=0, **options)
    return run(world.spark, given)


def found(summary: AuditSummary) -> set[tuple[str, str, str]]:
    return {(one.finding, one.message_uid, one.entity) for one in summary.findings}


def exported(world: LakeTest, folder: Path) -> Path:
    """The log of the bus, under another name than its own."""
    sources = [SqliteBlobs(world.namespace.bus.folder / "messages.sqlite3")]
    plan = ExportPlan(folder=folder, namespace="site-a", segment_rows=1_000)
    export = ExportRun(sources, plan, SystemClock())
    export.once(lambda name, counts: None, time.sleep)
    return folder


def cut(world: LakeTest, entity: str) -> list[LakePart]:
    """Take the first batch of an entity out of its manifest; what it had."""
    lake = world.lake
    manifest = lake.manifest(lake.hours([entity])[0])
    first, *others = manifest.batches
    assert others, "there is another one"
    write_manifest(lake.folder, lake.identity.lake, manifest.without([first.batch]))
    return list(first.parts)


def taken(world: LakeTest, log: Path, parts: Iterable[LakePart]) -> set[str]:
    """The uids of what the log says was completed of these."""
    rows = read_operations(world.spark, [log]).where("operation = 'complete'")
    spans = {
        (part.generation, number)
        for part in parts
        for number in range(part.first, part.last + 1)
    }
    return {
        row.message_uid
        for row in rows.collect()
        if (row.generation, row.sequence_number) in spans and row.subqueue is None
    }


def captured(world: LakeTest, *entities: str) -> None:
    world.capture(*entities, consumes=True, max_messages=4)


def test_what_was_taken_is_in_the_lake_and_what_is_cut_out_of_it_is_lost(
    world: LakeTest, tmp_path: Path
) -> None:
    namespace = world.namespace
    namespace.bus.create_queue("parts", enable_partitioning=True)
    # The subscription of the lake is there before the first message.
    captured(world, "billing")
    namespace.send_to_topic("billing", numbered("b", range(10)))
    namespace.send("orders", numbered("o", range(7)))
    for n in range(6):
        keyed = ServiceBusMessage(f"p{n}", partition_key=f"k{n}")
        namespace.send("parts", [keyed])
    with namespace.receiver("orders") as receiver:
        [message] = receiver.receive_messages(1, max_wait_time=5)
        receiver.dead_letter_message(message, reason="OutOfStock")
    # Another's: it makes a hole in what the lake has.
    namespace.receive("orders", count=1)
    captured(world, "billing", "orders", "orders/$deadletterqueue", "parts")
    log = exported(world, tmp_path / "log")
    whole = audited(world, log)
    assert (whole.verdict, whole.findings) == (PROVEN, ())
    [lake] = whole.lakes
    assert (lake.messages, lake.taken, lake.lost, lake.unknown) == (22, 22, 0, 0)
    topic, queue = cut(world, "billing"), cut(world, "orders")
    summary = audited(world, log, output=str(tmp_path / "out"))
    lost = {("lost", uid, TOPIC) for uid in taken(world, log, topic)}
    lost |= {("lost", uid, "orders") for uid in taken(world, log, queue)}
    assert summary.verdict == FOUND and found(summary) == lost
    missing = sum(part.count for part in (*topic, *queue))
    assert len(lost) == missing == summary.lakes[0].lost
    one = next(each for each in summary.findings if each.entity == TOPIC)
    assert {step.operation for step in one.timeline} == {"send", "arrive", "complete"}
    verdicts = {each.entity: each.verdict for each in summary.entities}
    assert (verdicts[TOPIC], verdicts["orders"]) == (FOUND, FOUND)
    assert (verdicts["billing"], verdicts["parts"]) == (PROVEN, PROVEN)
    timelines = world.spark.read.parquet(str(tmp_path / "out" / "timelines"))
    assert timelines.select("message_uid").distinct().count() == missing


def step(operation: str, part: LakePart, number: int, **columns: Any) -> dict[str, Any]:
    return {
        "operation": operation,
        "occurred_at": enqueued_at(part) + timedelta(seconds=number),
        "entity": part.source,
        "entity_kind": "subscription" if part.source == TOPIC else "queue",
        "generation": part.generation,
        "fragment": part.fragment,
        "sequence_number": number,
        "message_uid": f"{part.generation[:16]}{number:016}",
        **columns,
    }


def enqueued_at(part: LakePart) -> datetime:
    return datetime.fromtimestamp(part.first_enqueued_at / 1000, UTC)


def life(
    part: LakePart, number: int, reader: str | None = None, **columns: Any
) -> list[dict[str, Any]]:
    """Of a message that somebody reads exclusively."""
    came = "arrive" if part.source == TOPIC else "send"
    settled = {"purpose": "bulk", "client": reader}
    return [
        step(came, part, number, **columns),
        step("complete", part, number, **settled),
    ]


def test_a_log_that_names_no_reader_tells_what_it_can(
    world: LakeTest, tmp_path: Path
) -> None:
    captured(world, "billing", "orders")
    world.namespace.send_to_topic("billing", numbered("b", range(8)))
    world.namespace.send("orders", numbered("o", range(8)))
    captured(world, "billing", "orders")
    [topic], [queue] = cut(world, "billing"), cut(world, "orders")
    rows = [
        row
        for part in (topic, queue)
        for number in range(1, 9)
        for row in life(part, number)
    ]
    # Not looked at by the capture, or another's: not in the lake, and no fault.
    rows += [*life(queue, 50), *life(queue, 51, "another")]
    # Of a day that was removed from the lake.
    long_ago = enqueued_at(topic) - timedelta(days=2)
    rows += life(topic, 60, occurred_at=long_ago)
    writer = LogWriter(tmp_path / "log", "twinbus")
    until = enqueued_at(topic) + timedelta(hours=1)
    first = writer.write_rows(rows[:4], complete_until=until)
    writer.write_rows(rows[4:], complete_until=until)
    summary = audited(world, tmp_path / "log")
    told = {(one.finding, one.entity) for one in summary.findings}
    assert told == {("lost", TOPIC), ("unknown", "orders")}
    [lake] = summary.lakes
    assert (lake.lost, lake.unknown) == (topic.count, queue.count)
    assert lake.before == summary.totals["before the lake"] == 1
    # What is not in the log is not missed, and nothing is proven.
    first.unlink()
    blind = audited(world, tmp_path / "log")
    assert blind.lakes[0].taken == lake.taken - 2
    assert PROVEN not in {one.verdict for one in blind.entities}


def test_a_lake_that_cannot_be_used_is_refused_before_anything_is_written(
    world: LakeTest, tmp_path: Path
) -> None:
    world.namespace.send("orders", numbered("o", range(3)))
    captured(world, "orders")
    log, out = tmp_path / "log", tmp_path / "out"
    [part] = world.lake.manifest(world.lake.hours()[0]).parts
    LogWriter(log, "site-b").write_rows(
        [{**step("send", part, 1), "generation": "another"}]
    )

    def refused(kind: type[Exception], why: str) -> None:
        with pytest.raises(kind, match=why):
            audited(world, log, output=str(out))

    refused(LakeError, "is the lake of the namespace '.*', and this is 'site-b'")
    manifest = world.folder / world.lake.hours()[0].manifest
    text = manifest.read_text()
    manifest.write_text(text[:-20])
    refused(LakeDamaged, "is torn or damaged")
    manifest.write_text(text)
    [file] = world.files()
    file.rename(tmp_path / "away")
    refused(LakeDamaged, "is gone; by the manifest")
    identity = world.folder / "lake.json"
    content = json.loads(identity.read_text())
    identity.write_text(json.dumps({**content, "format": 2}))
    refused(LakeError, "is of format 2; this version of twinbus")
    identity.write_text(json.dumps({**content, "data": "orc"}))
    refused(LakeError, "'orc' is not a format of lakes")
    identity.unlink()
    refused(LakeError, "has no lake")
    assert not out.exists()
