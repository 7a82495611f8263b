"""S1: a stream that browses: it follows the sequence numbers, and settles nothing."""

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from twinbus.spark.bulk import stream as bulk_stream
from twinbus.spark.read_options import read_options
from twinbus.spark.resting import TWINBUS_SECONDS

from .harness import Collected, Namespace, numbered, run_available
from .running import batches_in, forget_batch, running, until


def test_nothing_is_settled_and_nothing_is_seen_twice(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("o", range(25)))
    stream = namespace.stream(spark, "orders", maxMessagesPerBatch=10)
    collected = Collected()
    run_available(stream, collected, tmp_path / "checkpoint")
    assert [len(rows) for _, rows in collected.batches] == [10, 10, 5]
    namespace.send("orders", ["later"])
    # Another run goes on where this one ended.
    run_available(stream, collected, tmp_path / "checkpoint")
    assert collected.bodies == [*numbered("o", range(25)), "later"]
    assert len(namespace.peek("orders")) == 26
    # And nobody is kept away.
    assert namespace.receive("orders", 1) == ["o0"]


def test_a_running_stream_sees_what_comes(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("orders")
    collected = Collected()
    stream = namespace.stream(spark, "orders")
    with running(stream, collected, tmp_path / "checkpoint") as query:
        for n in range(3):
            namespace.send("orders", [f"o{n}"])
            until(lambda seen=n: len(collected.rows) > seen, query)
    assert collected.bodies == ["o0", "o1", "o2"]


@pytest.mark.parametrize("settlement", ["browse", "exclusive"])
def test_a_stream_rests_when_nothing_comes(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch, settlement: str
) -> None:
    """Spark asks again at once, and each time is a request, or a commit."""
    rests: list[float] = []
    monkeypatch.setattr(bulk_stream, "rest", rests.append)
    namespace.bus.create_queue("orders")
    namespace.send("orders", ["one"])
    options = namespace.options("orders", settlement=settlement)
    stream = bulk_stream.BulkStream(read_options(options, is_stream=True))
    end = stream.advance(stream.initial(), 10)
    assert rests == []
    assert stream.advance(end, 10) == end
    assert rests == [TWINBUS_SECONDS]
    # One that ends with what is there is over, and keeps nobody waiting.
    stream.end_with_what_is_there()
    assert stream.advance(end, 10) == end
    assert rests == [TWINBUS_SECONDS]
    stream.close()


def test_from_the_latest(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    """What is there at the start is left out; what comes is not."""
    namespace.bus.create_queue("orders")
    namespace.send("orders", ["old"])
    collected = Collected()
    stream = namespace.stream(spark, "orders", startingPosition="latest")
    with running(stream, collected, tmp_path / "checkpoint") as query:
        until(lambda: query.lastProgress is not None, query)
        namespace.send("orders", ["new"])
        until(lambda: collected.rows, query)
        # Stopped before its batch is committed, it would come again.
        logs = tmp_path / "checkpoint"
        planned = batches_in(logs / "offsets")
        until(lambda: batches_in(logs / "commits") == planned, query)
    assert collected.bodies == ["new"]
    # A restart asks the checkpoint, not the option.
    namespace.send("orders", ["between"])
    run_available(stream, collected, tmp_path / "checkpoint")
    assert collected.bodies == ["new", "between"]


def test_from_a_number_and_from_a_time(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", ["o0", "o1"])
    namespace.bus.advance(60)
    at = namespace.bus.now()
    namespace.send("orders", ["o2", "o3"])
    numbers = [message.sequence_number for message in namespace.peek("orders")]
    by_number, by_time, later = Collected(), Collected(), Collected()
    run_available(
        namespace.stream(spark, "orders", fromSequence=numbers[1]),
        by_number,
        tmp_path / "number",
    )
    run_available(
        namespace.stream(spark, "orders", startTime=at.isoformat()),
        by_time,
        tmp_path / "time",
    )
    future = namespace.stream(spark, "orders", startTime="2100-01-01")
    run_available(future, later, tmp_path / "future")
    assert by_number.bodies == ["o1", "o2", "o3"]
    assert by_time.bodies == ["o2", "o3"]
    assert later.bodies == []


def test_a_batch_is_the_same_when_it_is_read_again(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("o", range(10, 30)))
    checkpoint = tmp_path / "checkpoint"
    stream = namespace.stream(spark, "orders", maxMessagesPerBatch=8)
    first = Collected()
    run_available(stream, first, checkpoint)
    forget_batch(checkpoint, "commits", batches_in(checkpoint / "commits")[-1])
    namespace.send("orders", ["later"])
    second = Collected()
    run_available(stream, second, checkpoint)
    assert second.batches[0] == first.batches[-1]
    assert second.bodies == [*numbered("o", range(26, 30)), "later"]


def taking(namespace: Namespace, into: list[int]) -> object:
    """A sink before which somebody receives the first four messages."""

    def process(batch: DataFrame, batch_id: int) -> None:
        if not into:
            assert len(namespace.receive("orders", 4)) == 4
        into.append(len(batch.collect()))

    return process


@pytest.mark.parametrize("loss", ["auto", "false"])
def test_who_only_looks_goes_on_without_what_others_take(
    spark: SparkSession, namespace: Namespace, tmp_path: Path, loss: str
) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("o", range(10)))
    counts: list[int] = []
    stream = namespace.stream(spark, "orders", failOnDataLoss=loss)
    run_available(stream, taking(namespace, counts), tmp_path / "checkpoint")
    assert counts == [6]


def test_who_must_miss_nothing_is_told(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("o", range(10)))
    stream = namespace.stream(spark, "orders", failOnDataLoss="true")
    told = r"(?s)4 of 10 messages of 'orders'.*Set failOnDataLoss to false"
    with pytest.raises(StreamingQueryException, match=told):
        run_available(stream, taking(namespace, []), tmp_path / "checkpoint")


def test_messages_that_were_taken_between_two_batches_are_no_matter(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    """Only what was planned can be missed."""
    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("o", range(4)))
    stream = namespace.stream(spark, "orders", failOnDataLoss="true")
    collected = Collected()
    run_available(stream, collected, tmp_path / "checkpoint")
    namespace.send("orders", numbered("p", range(4)))
    assert len(namespace.receive("orders", 6)) == 6
    run_available(stream, collected, tmp_path / "checkpoint")
    assert collected.bodies == [*numbered("o", range(4)), "p2", "p3"]


def test_a_checkpoint_of_something_else_is_told(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", ["one"])
    checkpoint = tmp_path / "checkpoint"
    stream = namespace.stream(spark, "orders")
    run_available(stream, Collected(), checkpoint)
    offsets = checkpoint / "offsets" / "0"
    lines = offsets.read_text().splitlines()
    offsets.write_text("\n".join([*lines[:-1], '{"shardId": 7}']))
    (checkpoint / "offsets" / ".0.crc").unlink()
    with pytest.raises(StreamingQueryException, match="another checkpoint location"):
        run_available(stream, Collected(), checkpoint)
