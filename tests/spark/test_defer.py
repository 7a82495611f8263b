"""S1: Spark reads a namespace that is not twinbus: browsing and deferring."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusMessage
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from .harness import Collected, Namespace, numbered, run_available
from .running import batches_in, forget_batch, running, until


class Failing(Collected):
    """A sink that fails once it has got something, as often as it is told."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self._left = times

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        super().__call__(batch, batch_id)
        if self._left and self.batches[-1][1]:
            self._left -= 1
            raise RuntimeError("the sink is out of order")


def test_a_stream_reads_everything_once_and_leaves_nothing(
    spark: SparkSession, strict: Namespace, tmp_path: Path
) -> None:
    strict.bus.create_queue("orders")
    strict.bus.create_queue("visits", requires_session=True)
    strict.send("orders", numbered("o", range(70)))
    strict.send(
        "visits",
        [ServiceBusMessage(f"v{n}", session_id=f"{n % 4}") for n in range(30)],
    )
    collected = Collected()
    stream = strict.stream(
        spark, "orders,visits", settlement="defer", maxMessagesPerBatch=60
    )
    run_available(stream, collected, tmp_path / "checkpoint")
    assert sorted(collected.bodies) == sorted(
        numbered("o", range(70)) + numbered("v", range(30))
    )
    assert all(len(rows) <= 60 for _, rows in collected.batches)
    assert {row.state for row in collected.rows} == {"deferred"}
    left = strict.read(spark, "orders,visits", states="active,deferred")
    assert left.count() == 0


def test_a_quiet_queue_is_settled_within_one_trigger(
    spark: SparkSession, strict: Namespace, tmp_path: Path
) -> None:
    strict.bus.create_queue("orders")
    collected = Collected()
    stream = strict.stream(spark, "orders", settlement="defer")
    with running(stream, collected, tmp_path / "checkpoint") as query:
        until(lambda: batches_in(tmp_path / "checkpoint" / "commits"), query)
        strict.send("orders", numbered("o", range(10)))
        until(lambda: len(collected.rows) == 10, query)
        # Nothing more comes: only the next trigger can have done it.
        until(lambda: strict.peek("orders") == [], query)
    assert sorted(collected.bodies) == numbered("o", range(10))


def test_a_batch_that_failed_is_read_again_alike(
    spark: SparkSession, strict: Namespace, tmp_path: Path
) -> None:
    strict.bus.create_queue("orders")
    strict.send("orders", numbered("o", range(10)))
    failing = Failing(times=1)
    stream = strict.stream(spark, "orders", settlement="defer", maxMessagesPerBatch=6)
    with pytest.raises(PySparkException, match="out of order"):
        run_available(stream, failing, tmp_path / "checkpoint")
    strict.send("orders", numbered("late", range(3)))
    run_available(stream, failing, tmp_path / "checkpoint")
    (first_id, first), (again_id, again), *rest = [
        (batch_id, rows) for batch_id, rows in failing.batches if rows
    ]
    assert first_id == again_id and _bodies(first) == _bodies(again)
    assert sorted(_bodies(again) + [b for _, rows in rest for b in _bodies(rows)]) == (
        sorted(numbered("o", range(10)) + numbered("late", range(3)))
    )
    assert strict.peek("orders") == []


def _bodies(rows: list[Row]) -> list[str]:
    return sorted(row.body.decode() for row in rows)


def test_a_batch_that_was_settled_cannot_be_read_again(
    spark: SparkSession, strict: Namespace, tmp_path: Path
) -> None:
    """The checkpoint is taken back to before the last commit, which settled."""
    strict.bus.create_queue("orders")
    strict.send("orders", numbered("o", range(4)))
    checkpoint, collected = tmp_path / "checkpoint", Collected()
    stream = strict.stream(spark, "orders", settlement="defer")
    run_available(stream, collected, checkpoint)
    forget_batch(checkpoint, "commits", batches_in(checkpoint / "commits")[-1])
    with pytest.raises(PySparkException, match="4 of 4 messages of 'orders'"):
        run_available(stream, collected, checkpoint)
    strict.send("orders", ["late"])
    lenient = strict.stream(spark, "orders", settlement="defer", failOnDataLoss="false")
    run_available(lenient, collected, checkpoint)
    assert sorted(collected.bodies) == ["late", *numbered("o", range(4))]
    assert strict.peek("orders") == []


def test_a_task_that_is_tried_again_reads_the_same(
    spark: SparkSession, strict: Namespace, tmp_path: Path
) -> None:
    strict.bus.create_queue("orders")
    strict.send("orders", numbered("o", range(20)))
    tries = tmp_path / "tries"
    tries.mkdir()

    def fail_first(rows: Iterable[Row]) -> Iterator[str]:
        context = TaskContext.get()
        assert context is not None
        bodies = [row.body.decode() for row in rows]
        if bodies:
            (tries / f"{context.attemptNumber()}-{len(bodies)}").touch()
            if context.attemptNumber() == 0:
                raise RuntimeError("the first attempt fails")
        yield from bodies

    read: list[str] = []

    def sink(batch: DataFrame, batch_id: int) -> None:
        read.extend(batch.rdd.mapPartitions(fail_first).collect())

    stream = strict.stream(spark, "orders", settlement="defer", columns="body")
    run_available(stream, sink, tmp_path / "checkpoint")
    assert sorted(read) == sorted(numbered("o", range(20)))
    assert {file.name for file in tries.iterdir()} == {"0-20", "1-20"}
    assert strict.peek("orders") == []


def test_exclusive_reading_names_what_to_do_instead(
    spark: SparkSession, strict: Namespace, tmp_path: Path
) -> None:
    strict.bus.create_queue("orders")
    stream = strict.stream(spark, "orders", settlement="exclusive")
    with pytest.raises(PySparkException, match=r"exclusive.*Use defer"):
        run_available(stream, Collected(), tmp_path / "checkpoint")


def test_a_checkpoint_of_another_mode_is_told(
    spark: SparkSession, strict: Namespace, tmp_path: Path
) -> None:
    strict.bus.create_queue("orders")
    strict.send("orders", ["o"])
    checkpoint = tmp_path / "checkpoint"
    run_available(strict.stream(spark, "orders"), Collected(), checkpoint)
    deferring = strict.stream(spark, "orders", settlement="defer")
    with pytest.raises(PySparkException, match="does not defer"):
        run_available(deferring, Collected(), checkpoint)
