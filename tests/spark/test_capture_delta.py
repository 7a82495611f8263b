"""S2 and S3 with Delta: messages of entities in one table, each of them once.

Needs jars of Delta that fit the PySpark of the run: TWINBUS_TEST_TABLE_JARS names them
(docs/howto/capture-and-replay.md says which). Without them only the refusal is tested.
"""

import os
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from twinbus.spark.jobs.lake.delta_store import DeltaStore
from twinbus.spark.jobs.lake.errors import LakeDamaged, LakeError

from .faulty_folder import FaultyFolder, FolderFailed
from .harness import Namespace, numbered
from .lakes import LakeTest, bare_messages, purge
from .running import forget_batch
from .small_jobs import TABLE_JARS
from .test_replay import random_messages
from .test_types import MESSAGES, SEQUENCE, put

HAS_DELTA = TABLE_JARS in os.environ
needs_delta = pytest.mark.skipif(
    not HAS_DELTA, reason=f"{TABLE_JARS} names no jars of Delta"
)


class DeltaTest(LakeTest):
    """A lake whose messages are a Delta table."""

    @property
    def url(self) -> str:
        return str(self.folder / "messages")

    def table(self) -> DataFrame:
        """As any other program sees it, without the manifest."""
        return self.spark.read.format("delta").load(self.url)

    def table_bodies(self) -> list[str]:
        return sorted(row.body.decode() for row in self.table().collect())


@pytest.fixture
def world(spark: SparkSession, namespace: Namespace, tmp_path: Path) -> DeltaTest:
    namespace.bus.create_queue("orders")
    return DeltaTest(spark, namespace, tmp_path / "lake", data_format="delta")


@needs_delta
def test_what_is_new_is_added_to_one_table(world: DeltaTest) -> None:
    bus, namespace = world.namespace.bus, world.namespace
    bus.create_topic("billing")
    namespace.send("orders", numbered("o", range(5)))
    first = world.capture("orders", "billing", max_messages=3)
    assert (first.entities, first.batches, first.files) == ({"orders": 5}, 2, 0)
    namespace.send("orders", ["o5"])
    namespace.send_to_topic("billing", ["b0", "b1"])
    assert world.capture("orders", "billing").entities == {"billing": 2, "orders": 1}
    assert world.capture("orders", "billing").messages == 0
    assert world.bodies("orders") == numbered("o", range(6))
    assert world.bodies("billing") == ["b0", "b1"]
    assert world.table_bodies() == ["b0", "b1", *numbered("o", range(6))]
    assert world.manifest_count() == 8
    manifests = [world.lake.manifest(hour) for hour in world.lake.hours()]
    assert [one.files() for one in manifests] == [[] for _ in manifests]
    [detail] = world.spark.sql(f"DESCRIBE DETAIL delta.`{world.url}`").collect()
    assert detail.partitionColumns == ["entity", "date", "hour"]
    assert not (world.folder / "staging").exists() or not list(
        (world.folder / "staging").iterdir()
    )


@needs_delta
def test_a_batch_that_spark_repeats_is_in_the_table_once(world: DeltaTest) -> None:
    world.namespace.send("orders", numbered("o", range(4)))
    world.capture("orders")
    checkpoint = world.folder / "checkpoint" / "browse"
    forget_batch(checkpoint, "commits", 0)
    world.capture("orders")
    assert world.table_bodies() == numbered("o", range(4))
    # The same before the coverage was written: all is done again.
    [coverage] = (world.folder / "manifest" / "coverage").iterdir()
    coverage.unlink()
    forget_batch(checkpoint, "commits", 0)
    purge(world.namespace, "orders", 1)
    world.capture("orders")
    assert world.table_bodies() == world.bodies() == numbered("o", range(1, 4))
    assert world.manifest_count() == 3


# Changes of the lake besides the table: the first makes it. A batch has five: note,
# manifest, coverage, end of the note, end of staging; the table is between the first
# two.
STEPS = range(2, 12) if "TWINBUS_CAPTURE_STEPS" in os.environ else (3, 9)


def crash(world: DeltaTest, step: int, patched: pytest.MonkeyPatch) -> None:
    """Capture two batches, up to a step."""
    folder = FaultyFolder(world.folder, fails_at=step)
    place = "twinbus.spark.jobs.capture.running.open_folder"
    with patched.context() as within:
        within.setattr(place, lambda *_: folder)
        with pytest.raises(FolderFailed):
            world.capture("orders", consumes=True, max_messages=3)


@needs_delta
@pytest.mark.parametrize("step", STEPS)
def test_a_crash_between_two_steps_of_a_batch(
    world: DeltaTest, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two batches, consumed: whatever is lost now is lost for good."""
    sent = numbered("o", range(6))
    world.namespace.send("orders", sent)
    crash(world, step, monkeypatch)
    world.capture("orders", consumes=True, max_messages=3)
    assert world.table_bodies() == world.bodies() == sent
    assert world.manifest_count() == len(sent)
    assert world.namespace.peek("orders") == []


@needs_delta
def test_a_batch_that_nobody_repeats_leaves_the_table(
    world: DeltaTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint is lost after a crash: another query captures the messages."""
    sent = numbered("o", range(3))
    world.namespace.send("orders", sent)
    # After the table, before the manifest.
    crash(world, 3, monkeypatch)
    assert world.table_bodies() == sent and world.manifest_count() == 0
    (world.folder / "checkpoint").rename(world.folder / "lost")
    world.capture("orders", consumes=True)
    assert world.table_bodies() == world.bodies() == sent


@needs_delta
def test_a_table_with_less_than_was_staged_ends_the_capture(
    world: DeltaTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = numbered("o", range(3))
    world.namespace.send("orders", sent)
    replace = DeltaStore._replace
    with monkeypatch.context() as patched:
        patched.setattr(
            DeltaStore,
            "_replace",
            lambda self, rows, where: replace(self, rows.limit(2), where),
        )
        with pytest.raises(LakeDamaged, match="does not have what was written"):
            world.capture("orders", consumes=True)
    assert world.namespace.bodies("orders") == sent
    world.capture("orders", consumes=True)
    assert world.table_bodies() == world.bodies() == sent


@needs_delta
def test_a_replay_sends_what_the_manifest_names_byte_by_byte(
    world: DeltaTest,
) -> None:
    namespace = world.namespace
    namespace.bus.create_queue("copies")
    put(namespace, "orders", [*MESSAGES, SEQUENCE, *random_messages(50)])
    sent = bare_messages(namespace, "orders")
    world.capture("orders", max_messages=40)
    # As a batch that was killed would leave it; and files that Delta has rewritten.
    rows = world.table().limit(3).drop("batch").selectExpr("*", "'killed' AS batch")
    rows.write.format("delta").mode("append").save(world.url)
    world.spark.sql(f"OPTIMIZE delta.`{world.url}`").collect()
    assert world.table().count() == len(sent) + 3
    for known in (0, len(sent)):
        summary = world.replay("r1", target="copies")
        assert (summary.sent, summary.known) == (len(sent) - known, known)
    assert bare_messages(namespace, "copies") == sent


@needs_delta
def test_a_table_that_lacks_a_row_sends_nothing(world: DeltaTest) -> None:
    world.namespace.send("orders", numbered("o", range(3)))
    world.capture("orders")
    condition = "sequence_number = 2"
    world.spark.sql(f"DELETE FROM delta.`{world.url}` WHERE {condition}").collect()
    with pytest.raises(LakeDamaged, match="do not have what the manifest says"):
        world.replay("r1")
    assert len(world.namespace.peek("orders")) == 3


@needs_delta
def test_a_lake_keeps_its_format(world: DeltaTest) -> None:
    world.capture("orders", data_format="parquet")
    with pytest.raises(LakeError, match="messages as parquet, and delta was asked for"):
        world.capture("orders")


@pytest.mark.skipif(HAS_DELTA, reason="this Spark has Delta")
def test_a_spark_without_delta_is_told_what_to_add(world: DeltaTest) -> None:
    version = ".".join(world.spark.version.split(".")[:2])
    wanted = rf"has no Delta\. Add the package io\.delta:delta-spark_{version}_2\.13"
    with pytest.raises(LakeError, match=wanted):
        world.capture("orders")
    assert not world.folder.exists()
    # The same for a lake that somebody else captured.
    world.namespace.send("orders", ["o0"])
    world.capture("orders", data_format="parquet")
    identity = world.folder / "lake.json"
    identity.write_text(identity.read_text().replace('"parquet"', '"delta"'))
    with pytest.raises(LakeError, match=wanted):
        world.replay("r1")
