"""The audit finds what was planted, and nothing else; over a gap it does not know."""

import json
import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bench.operation_log_writer import LogWriter
from bench.operation_logs import GeneratedLogs, LogOptions, generate
from twinbus.spark.jobs.audit import AuditOptions, AuditSummary, run
from twinbus.spark.jobs.audit.audit_summary import FOUND, NOT_KNOWN, PROVEN
from twinbus.spark.jobs.segment_files import OperationLogError

ROWS = int(os.environ.get("TWINBUS_AUDIT_ROWS", "20000"))
"""Of the logs with planted faults; `make nightly` has five millions."""

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)


def audited(
    spark: SparkSession, folders: Iterable[Path], **options: Any
) -> AuditSummary:
    logs = tuple(str(folder) for folder in folders)
    return run(spark, AuditOptions(logs=logs, **options))


def found(summary: AuditSummary) -> set[tuple[str, str, str]]:
    return {(one.finding, one.message_uid, one.entity) for one in summary.findings}


def planted(made: GeneratedLogs) -> set[tuple[str, str, str]]:
    return {(one.kind, one.message_uid, one.entity) for one in made.planted}


def total(summary: AuditSummary, name: str) -> int:
    return sum(getattr(one, name) for one in summary.entities)


@pytest.mark.timeout(0)
def test_a_hundred_planted_faults_are_found_and_nothing_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    options = LogOptions(rows=ROWS, seed=7, losses=34, duplicates=33, misroutings=33)
    made = generate(tmp_path / "logs", options)
    summary = audited(spark, made.folders, output=str(tmp_path / "out"))
    assert found(summary) == planted(made)
    assert len(made.planted) == sum(summary.totals.values()) == 100
    assert summary.verdict == FOUND
    assert all(one.timeline for one in summary.findings)
    assert total(summary, "in_flight") == made.in_flight + made.dead_lettered
    assert total(summary, "dead_lettered") == made.dead_lettered
    assert total(summary, "expired") == made.expired
    tables = {
        name: spark.read.parquet(str(tmp_path / "out" / name))
        for name in ("entities", "findings", "timelines")
    }
    assert tables["findings"].count() == 100
    assert tables["entities"].count() == len(summary.entities)
    assert tables["timelines"].select("message_uid").distinct().count() == 100


def test_without_send_logs_the_logs_of_both_sites_tell_what_they_can(
    spark: SparkSession, tmp_path: Path
) -> None:
    options = LogOptions(rows=10_000, seed=3, losses=4, duplicates=6, misroutings=4)
    options = LogOptions(**{**_fields(options), "has_sender_log": False})
    made = generate(tmp_path, options)
    summary = audited(spark, made.folders)
    # The odd ones were sent in the outage: the backlog knows them, and where they are
    # to go. Of the others, only what came twice can be seen.
    told = {one for at, one in enumerate(_in_order(made)) if _is_told(one, at)}
    assert {(one.finding, one.message_uid) for one in summary.findings} == told
    assert told


def test_without_send_logs_every_message_restored_to_a_wrong_entity_is_found(
    spark: SparkSession, tmp_path: Path
) -> None:
    """There are more of the backlog than the audit opens to compare clocks."""
    options = LogOptions(rows=40_000, seed=9, misroutings=20, has_sender_log=False)
    made = generate(tmp_path, options)
    summary = audited(spark, made.folders)
    # The later half was sent in the outage.
    restored = set(_in_order(made)[10:])
    assert {(one.finding, one.message_uid) for one in summary.findings} == restored
    assert summary.buckets_opened < summary.buckets / 2


def _fields(options: LogOptions) -> dict[str, Any]:
    return {name: getattr(options, name) for name in LogOptions.__dataclass_fields__}


def _in_order(made: GeneratedLogs) -> list[tuple[str, str]]:
    return [(one.kind, one.message_uid) for one in made.planted]


def _is_told(one: tuple[str, str], at: int) -> bool:
    """Faults are listed in order of time: those before the outage come first."""
    return one[0] == "duplicated" or at >= 7


def test_a_log_without_faults_is_proven_whatever_the_clocks_say(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = generate(tmp_path, LogOptions(rows=10_000, seed=5, skew_seconds=240.0))
    summary = audited(spark, made.folders)
    assert (summary.verdict, summary.findings) == (PROVEN, ())
    [note] = [note for note in summary.notes if "clock" in note]
    assert "the secondary is about 240 s ahead" in note


def test_over_a_removed_segment_the_answer_is_unknown(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = generate(tmp_path, LogOptions(rows=10_000, seed=6))
    segments = sorted((made.folders[0] / "segments").iterdir())
    segments[0].unlink()
    summary = audited(spark, made.folders)
    assert summary.verdict == NOT_KNOWN
    assert summary.totals["lost"] == 0
    assert summary.totals["unknown"] > 0
    assert "segments 1 to 1" in summary.gaps[0]
    verdicts = {one.verdict for one in summary.entities if one.namespace == "site-a"}
    assert verdicts == {NOT_KNOWN}


def step(
    operation: str, uid: str, seconds: float = 0, **columns: Any
) -> dict[str, Any]:
    return {
        "operation": operation,
        "message_uid": uid * 32,
        "occurred_at": AT + timedelta(seconds=seconds),
        "entity": "orders",
        "entity_kind": "queue",
        **columns,
    }


def lives() -> list[dict[str, Any]]:
    """Messages that nothing is wrong with, on all the ways that there are."""
    dead = {"subqueue": "$deadletterqueue"}
    topic = {"entity": "billing", "entity_kind": "topic"}
    audit = {"entity": "billing/subscriptions/a", "entity_kind": "subscription"}
    other = {"entity": "billing/subscriptions/b", "entity_kind": "subscription"}
    return [
        # Scheduled, activated, received. Another one is cancelled.
        step("schedule", "1"),
        step("activate", "1", 5),
        step("arrive", "1", 5),
        step("receive_and_delete", "1", 6),
        step("schedule", "2"),
        step("cancel", "2", 1),
        # Delivered too often: one row at the old place, one in the dead letters.
        step("send", "3"),
        step("lock", "3", 1),
        step("abandon", "3", 2),
        step("arrive", "3", 2, reason="MaxDeliveryCountExceeded", **dead),
        step("complete", "3", 9, **dead),
        # Expired, and became a dead letter; expired for good.
        step("send", "4"),
        step("expire", "4", 2),
        step("arrive", "4", 2, reason="TTLExpiredException", **dead),
        step("complete", "4", 8, **dead),
        step("send", "5"),
        step("expire", "5", 1),
        # To a topic: one subscription completes, the other one dead-letters.
        step("send", "6", **topic),
        step("arrive", "6", **audit),
        step("arrive", "6", **other),
        step("complete", "6", 3, **audit),
        step("dead_letter", "6", 3, reason="Bad", **other),
        step("arrive", "6", 3, reason="Bad", **{**other, **dead}),
        # There and back again, by forwarding.
        step("send", "7"),
        step("forward", "7", 1, destination="side"),
        step("arrive", "7", 1, entity="side"),
        step("forward", "7", 2, entity="side", destination="orders"),
        step("arrive", "7", 2),
        step("complete", "7", 3),
        # Refused: it never was.
        step("refuse", "8", result="refused"),
    ]


def test_all_ways_of_a_message_are_understood(
    spark: SparkSession, tmp_path: Path
) -> None:
    writer = LogWriter(tmp_path, "site-a")
    writer.write_rows(lives(), complete_until=AT + timedelta(hours=1))
    summary = audited(spark, [tmp_path])
    assert (summary.verdict, summary.findings, summary.notes) == (PROVEN, (), ())
    in_flight = {one.entity: one.in_flight for one in summary.entities}
    assert in_flight == {
        "orders": 0,
        "side": 0,
        "billing": 0,
        "billing/subscriptions/a": 0,
        "billing/subscriptions/b": 1,
    }


def test_claims_near_the_end_are_the_open_tail_and_settling_twice_is_a_fault(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [step("send", "1"), step("complete", "1", 1), step("complete", "1", 2)]
    store = LogWriter(tmp_path / "store", "localhost")
    store.write_rows(rows, complete_until=AT + timedelta(minutes=10))
    # It knows the bus by another name.
    sender = LogWriter(tmp_path / "sender", "site-a", kind="sender")
    claims = [
        step("send", "1"),
        step("send", "2", 595),
        step("send", "3", 300),
        step("send", "4", 300, result="unknown"),
        step("send", "5", 100, latency_ms=495_000.0),
    ]
    sender.write_rows(claims)
    summary = audited(spark, [tmp_path / "store", tmp_path / "sender"])
    assert found(summary) == {
        ("duplicated", "1" * 32, "orders"),
        ("lost", "3" * 32, "orders"),
    }
    assert summary.totals["open tail"] == 2
    assert "judged when more is exported" in " ".join(summary.notes)


def paired(folder: Path, *, is_closed: bool = False) -> tuple[Path, list[Path]]:
    """A store and a sender of two messages, which ends eight minutes before the store's
    log does. The segments of both, the sender's last."""
    moment = AT + timedelta(seconds=100)
    store = LogWriter(folder / "store", "site-a")
    first = [step("send", "1"), step("complete", "1", 1)]
    second = [step("send", "2", 100), step("complete", "2", 101)]
    segments = [
        store.write_rows(first, complete_until=AT + timedelta(seconds=2)),
        store.write_rows(second, complete_until=AT + timedelta(minutes=10)),
    ]
    sender = LogWriter(folder / "sender", "site-a", kind="sender")
    segments.append(sender.write_rows([step("send", "1")]))
    claims = [step("send", "2", 100)]
    segments.append(sender.write_rows(claims, moment, is_last=is_closed))
    return folder, segments


def audited_pair(spark: SparkSession, folder: Path) -> AuditSummary:
    return audited(spark, [folder / "store", folder / "sender"])


def test_a_sender_that_closed_its_log_leaves_nothing_open(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder, segments = paired(tmp_path, is_closed=True)
    summary = audited_pair(spark, folder)
    assert (summary.verdict, summary.gaps, summary.notes) == (PROVEN, (), ())
    # Its last segment is lost: what else it sent is not known.
    segments[-1].unlink()
    summary = audited_pair(spark, folder)
    assert summary.verdict == NOT_KNOWN
    [gap] = summary.gaps
    assert "the sender ended without closing its log" in gap
    assert "from 2026-11-01T12:00:00.000+00:00 to 2026-11-01T12:10:00.000+00:00" in gap


def test_what_a_killed_sender_sent_last_is_unknown(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder, _ = paired(tmp_path)
    summary = audited_pair(spark, folder)
    assert (summary.verdict, len(summary.gaps)) == (NOT_KNOWN, 1)
    assert [one.verdict for one in summary.entities] == [NOT_KNOWN]
    assert (summary.totals["unknown"], summary.totals["lost"]) == (0, 0)


def test_the_end_of_a_killed_sender_does_not_hide_what_it_claimed_before(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder, _ = paired(tmp_path)
    other = LogWriter(folder / "sender", "site-a", kind="sender", name="other")
    claims = [step("send", "3", 50)]
    other.write_rows(claims, complete_until=AT + timedelta(minutes=10), is_last=True)
    summary = audited_pair(spark, folder)
    assert (summary.verdict, len(summary.gaps)) == (FOUND, 1)
    assert found(summary) == {("lost", "3" * 32, "orders")}


def test_without_the_last_segment_of_a_store_later_sends_are_the_open_tail(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder, segments = paired(tmp_path)
    segments[1].unlink()
    summary = audited_pair(spark, folder)
    assert (summary.verdict, summary.gaps) == (PROVEN, ())
    assert summary.complete_until == "2026-11-01T12:00:02.000+00:00"
    assert summary.totals["open tail"] == 1
    assert "1 senders have not closed their logs yet" in " ".join(summary.notes)


def test_a_generated_log_without_the_end_of_its_sender_is_unknown(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = generate(tmp_path, LogOptions(rows=10_000, seed=11))
    last = max((made.folders[2] / "segments").iterdir())
    content = json.loads(last.read_text())
    assert content.pop("closed")
    # It is as long as the others: it may be running.
    last.write_text(json.dumps(content))
    summary = audited(spark, made.folders)
    assert summary.verdict == PROVEN
    content["complete_until"] = content["last_occurred_at"]
    last.write_text(json.dumps(content))
    summary = audited(spark, made.folders)
    assert (summary.verdict, summary.totals["lost"]) == (NOT_KNOWN, 0)
    verdicts = {one.verdict for one in summary.entities if one.namespace == "site-a"}
    assert verdicts == {NOT_KNOWN}


def test_a_crash_does_not_hide_what_the_audit_looks_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    writer = LogWriter(tmp_path, "site-a")
    rows = [step("send", "1"), step("complete", "1", 1)]
    segment = writer.write_rows(rows, complete_until=AT + timedelta(hours=1))
    content = json.loads(segment.read_text())
    content["gaps"] = [{"first_batch": 1, "last_batch": 1, "why": "crash"}]
    segment.write_text(json.dumps(content))
    summary = audited(spark, [tmp_path])
    assert summary.verdict == PROVEN
    assert "1 crashes" in summary.notes[0]


def test_logs_that_cannot_be_used_are_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder, out = tmp_path / "log", tmp_path / "out"
    writer = LogWriter(folder, "site-a")
    segment = writer.write_rows([step("send", "1")])
    with pytest.raises(OperationLogError, match="no log of site-b"):
        audited(spark, [folder], namespaces=("site-a", "site-b"))
    with pytest.raises(OperationLogError, match="logs of site-a, and only"):
        audited(spark, [folder], namespaces=("site-b",))
    with pytest.raises(OperationLogError, match="no log of the primary 'site-c'"):
        audited(spark, [folder], primary="site-c")
    only = tmp_path / "sender"
    LogWriter(only, "site-a", kind="sender").write_rows([step("send", "1")])
    with pytest.raises(OperationLogError, match="send logs only"):
        audited(spark, [only])
    file = folder / json.loads(segment.read_text())["file"]
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(OperationLogError, match="cut short"):
        audited(spark, [folder], output=str(out))
    assert not out.exists()
