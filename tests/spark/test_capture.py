"""S2: messages of entities in files, each of them once."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from twinbus.spark.jobs.capture.compaction import compact, compactable, recover
from twinbus.spark.jobs.capture.running import CaptureRun
from twinbus.spark.jobs.job_errors import JobRefused, NamespaceRefuses
from twinbus.spark.jobs.lake.errors import LakeError
from twinbus.spark.jobs.lake.file_store import FileStore
from twinbus.spark.jobs.lake.folder import LocalFolder
from twinbus.spark.jobs.lake.under_way import (
    BATCH,
    UnderWay,
    read_under_way,
    write_under_way,
)

from .faulty_folder import FaultyFolder, FolderFailed
from .harness import Namespace, numbered
from .lakes import LakeTest, purge
from .running import PATIENCE_SECONDS, forget_batch, until

NOW = 4_000_000_000_000
"""Later than any message of a test: every hour is over."""


@pytest.fixture
def world(spark: SparkSession, namespace: Namespace, tmp_path: Path) -> LakeTest:
    namespace.bus.create_queue("orders")
    return LakeTest(spark, namespace, tmp_path / "lake")


def test_what_is_new_is_captured_by_each_run(world: LakeTest) -> None:
    bus, namespace = world.namespace.bus, world.namespace
    bus.create_topic("billing")
    namespace.send("orders", numbered("o", range(5)))
    first = world.capture("orders", "billing", max_messages=3)
    assert first.entities == {"orders": 5} and first.messages == 5
    assert first.batches == 2
    namespace.send("orders", ["o5"])
    namespace.send_to_topic("billing", ["b0", "b1"])
    second = world.capture("orders", "billing", max_messages=3)
    assert second.entities == {"billing": 2, "orders": 1}
    third = world.capture("orders", "billing", max_messages=3)
    assert (third.messages, third.files, third.batches) == (0, 0, 0)
    assert world.bodies("orders") == numbered("o", range(6))
    assert world.bodies("billing") == ["b0", "b1"]
    # What was browsed is still there; the subscription of the lake is empty.
    assert namespace.bodies("orders") == numbered("o", range(6))
    subscription = "billing/subscriptions/twinbus-capture"
    assert namespace.bodies(subscription) == []
    _check_manifest(world)


def _check_manifest(world: LakeTest) -> None:
    """As docs/reference/lake.md describes it, for the audit and for other programs."""
    [hour] = world.lake.hours(["billing"])
    content = json.loads((world.folder / hour.manifest).read_text())
    assert (content["format"], content["entity"]) == (1, "billing")
    [batch] = content["batches"]
    [part] = batch["parts"]
    assert part["source"] == "billing/Subscriptions/twinbus-capture"
    assert (part["first"], part["last"], part["count"]) == (1, 2, 2)
    [file] = batch["files"]
    place = world.folder / hour.batch(batch["batch"]) / file["name"]
    assert place.stat().st_size == file["bytes"] and file["rows"] == 2
    assert world.files() and world.manifest_count() == 8
    coverages = (world.folder / "manifest" / "coverage").glob("*.json")
    covered = [json.loads(file.read_text())["entities"] for file in coverages]
    [orders] = [one["orders"] for one in covered if "orders" in one]
    [spans] = orders["generations"].values()
    assert spans == {"0": [0, 7]}


def test_a_batch_that_spark_repeats_is_captured_once(world: LakeTest) -> None:
    world.namespace.send("orders", numbered("o", range(4)))
    world.capture("orders")
    files = world.files()
    forget_batch(world.folder / "checkpoint" / "browse", "commits", 0)
    world.capture("orders")
    assert world.files() == files and world.manifest_count() == 4
    # The same before the coverage was written: all is done again.
    [coverage] = (world.folder / "manifest" / "coverage").iterdir()
    coverage.unlink()
    forget_batch(world.folder / "checkpoint" / "browse", "commits", 0)
    purge(world.namespace, "orders", 1)
    world.capture("orders")
    assert world.bodies() == numbered("o", range(1, 4))
    assert len(world.files()) == 1 and world.manifest_count() == 3


def test_without_its_checkpoint_nothing_is_captured_twice(world: LakeTest) -> None:
    world.namespace.send("orders", numbered("o", range(4)))
    world.capture("orders")
    (world.folder / "checkpoint").rename(world.folder / "lost")
    world.namespace.send("orders", ["o4"])
    summary = world.capture("orders")
    assert (summary.messages, summary.known) == (1, 4)
    assert world.bodies() == numbered("o", range(5))


def test_a_complete_batch_stays_though_its_checkpoint_is_lost(world: LakeTest) -> None:
    """A crash has left the note that it is under way; its coverage is written."""
    sent = numbered("o", range(3))
    world.namespace.send("orders", sent)
    world.capture("orders")
    [hour] = world.lake.hours()
    [batch] = world.lake.manifest(hour).batches
    note = UnderWay(kind=BATCH, batch=batch.batch, hours=(hour,))
    write_under_way(world.lake.folder, note)
    (world.folder / "checkpoint").rename(world.folder / "lost")
    assert world.capture("orders").known == len(sent)
    assert world.bodies() == sent
    assert read_under_way(world.lake.folder) is None


def test_a_consumed_queue_and_its_dead_letters(world: LakeTest) -> None:
    namespace = world.namespace
    namespace.send("orders", numbered("o", range(3)))
    with namespace.receiver("orders") as receiver:
        [message] = receiver.receive_messages(1, max_wait_time=5)
        receiver.dead_letter_message(message, reason="OutOfStock")
    summary = world.capture("orders", "orders/$deadletterqueue", consumes=True)
    assert summary.entities == {"orders": 2, "orders/$DeadLetterQueue": 1}
    assert namespace.peek("orders") == []
    [row] = [row for row in world.rows() if row.entity != "orders"]
    assert row.dead_letter_reason == "OutOfStock" and row.body == b"o0"


@pytest.mark.parametrize(
    "more",
    [
        {"window_ms": 200},
        # The window is long, but a whole batch waits.
        {"window_ms": 3_600_000, "consumes": True, "max_messages": 2},
    ],
    ids=["window over", "batch waits"],
)
def test_a_continuous_run_captures_what_comes_later_until_it_is_stopped(
    world: LakeTest, more: dict[str, Any]
) -> None:
    world.namespace.send("orders", ["o0", "o1"])
    options = world.capture_options("orders", is_continuous=True, **more)
    run = CaptureRun(world.spark, options)
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(run.main)
        try:
            until(lambda: ended.done() or run.summary().messages == 2)
            assert not ended.done()
            world.namespace.send("orders", ["o2", "o3"])
            until(lambda: ended.done() or run.summary().messages == 4)
            assert not ended.done(), "nobody told it to stop"
        finally:
            run.stop()
        summary = ended.result(PATIENCE_SECONDS)
    assert (summary.messages, summary.batches) == (4, 2)
    batch_of = {row.body.decode(): row.batch for row in world.rows()}
    assert sorted(batch_of) == numbered("o", range(4))
    assert batch_of["o0"] == batch_of["o1"] < batch_of["o2"] == batch_of["o3"]
    # It has left the lake to others.
    assert world.capture("orders", consumes="consumes" in more).messages == 0


# Changes of the lake: the first makes it. A batch has six: note, move, manifest,
# coverage, end of the note, end of staging.
STEPS = range(2, 14) if "TWINBUS_CAPTURE_STEPS" in os.environ else (4, 11)


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_between_two_steps_of_a_batch(
    world: LakeTest, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two batches, consumed: whatever is lost now is lost for good."""
    sent = numbered("o", range(6))
    world.namespace.send("orders", sent)
    options = {"consumes": True, "max_messages": 3}
    folder = FaultyFolder(world.folder, fails_at=step)
    place = "twinbus.spark.jobs.capture.running.open_folder"
    with monkeypatch.context() as patched:
        patched.setattr(place, lambda *_: folder)
        with pytest.raises(FolderFailed):
            world.capture("orders", **options)
    world.capture("orders", **options)
    assert world.bodies() == sent
    assert world.manifest_count() == len(sent)
    assert len(world.files()) == sum(
        len(world.lake.manifest(hour).files()) for hour in world.lake.hours()
    )
    assert world.namespace.peek("orders") == []


def test_compaction_is_safe_at_every_step(world: LakeTest) -> None:
    sent = numbered("o", range(4))
    world.namespace.send("orders", sent)
    world.capture("orders", max_messages=2)
    [before] = compactable(world.lake, world.lake.hours(), 2, NOW)
    assert len(before.batches) == 2
    assert compactable(world.lake, world.lake.hours(), 3, NOW) == []
    step = 1
    while True:
        folder = FaultyFolder(world.folder, fails_at=step)
        faulty = type(world.lake)(folder, world.lake.identity)
        try:
            compact(world.spark, faulty, FileStore(folder), before, "now")
            break
        except FolderFailed:
            # What readers see is whole at any moment.
            assert world.manifest_count() == 4
            store = FileStore(LocalFolder(world.folder))
            for hour in world.lake.hours():
                world.lake.check_files(world.lake.manifest(hour))
            recover(world.lake, store, [])
            [manifest] = [world.lake.manifest(hour) for hour in world.lake.hours()]
            assert len(manifest.files()) == len(world.files())
            if len(manifest.batches) == 1:
                break
            step += 1
    assert step >= 3, "it failed at the note, the move and the manifest, at least"
    [manifest] = [world.lake.manifest(hour) for hour in world.lake.hours()]
    assert len(manifest.batches) == 1 and manifest.parts == before.parts
    assert world.bodies() == sent and len(world.files()) == 1


def test_a_format_that_lakes_do_not_have_is_refused(world: LakeTest) -> None:
    for name in ("iceberg", "csv"):
        with pytest.raises(LakeError, match=f"'{name}' is not a format of lakes"):
            world.capture("orders", data_format=name)
    assert not world.folder.exists()


def test_what_cannot_be_captured_is_told(world: LakeTest) -> None:
    bus = world.namespace.bus
    with pytest.raises(JobRefused, match="'nothing' does not exist"):
        world.capture("nothing")
    bus.create_topic("billing")
    bus.create_subscription("billing", "twinbus-capture")
    with pytest.raises(JobRefused, match="exists, and is not of this lake"):
        world.capture("billing")
    with pytest.raises(JobRefused, match="Nothing is to be captured"):
        world.capture()
    world.namespace.secret_file.write_text(bus.connection_string_for("Listen"))
    with pytest.raises(NamespaceRefuses, match="the key needs the Manage right"):
        world.capture("billing", subscription="other")


def test_a_lake_has_one_namespace_and_one_writer(world: LakeTest) -> None:
    from twinbus.spark.jobs.capture.writer_lock import only_writer

    world.capture("orders")
    with only_writer(LocalFolder(world.folder)):
        with pytest.raises(LakeError, match="is being written by another capture"):
            world.capture("orders")
    identity = world.folder / "lake.json"
    content = json.loads(identity.read_text())
    identity.write_text(json.dumps({**content, "namespace": "other@1"}))
    with pytest.raises(LakeError, match="is the lake of the namespace 'other@1'"):
        world.capture("orders")
    identity.write_text(json.dumps({**content, "format": 2}))
    with pytest.raises(LakeError, match="is of format 2; this version of twinbus"):
        world.capture("orders")
