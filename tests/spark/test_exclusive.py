"""S1: a stream with the lease of its queue, which settles processed messages."""

import itertools
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

from .harness import Collected, Namespace, numbered, run_available
from .running import batches_in, forget_batch, running, until


def test_a_stream_reads_everything_once_and_leaves_nothing(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("orders")
    namespace.bus.create_queue("billing")
    namespace.send("orders", numbered("o", range(70)))
    namespace.send("billing", numbered("b", range(30)))
    collected = Collected()
    stream = namespace.stream(
        spark, "orders,billing", settlement="exclusive", maxMessagesPerBatch=40
    )
    run_available(stream, collected, tmp_path / "checkpoint")
    assert sorted(collected.bodies) == sorted(
        numbered("o", range(70)) + numbered("b", range(30))
    )
    assert len(collected.batches) >= 3
    assert namespace.peek("orders") == [] == namespace.peek("billing")


def test_available_now_gives_the_lease_back(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    """Receivers are served as soon as the query is over, though no time passes."""
    namespace.bus.create_queue("orders")
    namespace.send("orders", ["one"])
    collected = Collected()
    stream = namespace.stream(spark, "orders", settlement="exclusive")
    run_available(stream, collected, tmp_path / "checkpoint")
    namespace.send("orders", ["two"])
    assert namespace.receive("orders") == ["two"]


def test_a_quiet_queue_is_settled_within_one_trigger(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    """Nothing comes after the batch, so Spark never commits it."""
    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("o", range(10)))
    collected = Collected()
    stream = namespace.stream(spark, "orders", settlement="exclusive")
    with running(stream, collected, tmp_path / "checkpoint", "1 second") as query:
        until(lambda: namespace.peek("orders") == [], query)
        assert sorted(collected.bodies) == numbered("o", range(10))
        assert len(collected.batches) == 1


def test_nothing_is_settled_before_the_batch_is_done(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("o", range(4)))
    there: list[int] = []

    def look(batch: DataFrame, batch_id: int) -> None:
        batch.collect()
        there.append(len(namespace.peek("orders")))

    stream = namespace.stream(
        spark, "orders", settlement="exclusive", maxMessagesPerBatch=2
    )
    run_available(stream, look, tmp_path / "checkpoint")
    assert there == [4, 2]
    assert namespace.peek("orders") == []


def test_a_batch_that_fails_is_read_again_in_full(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("o", range(20)))

    def fail(batch: DataFrame, batch_id: int) -> None:
        batch.collect()
        raise RuntimeError("the sink is away")

    stream = namespace.stream(spark, "orders", settlement="exclusive")
    with pytest.raises(StreamingQueryException, match="the sink is away"):
        run_available(stream, fail, tmp_path / "checkpoint")
    assert len(namespace.peek("orders")) == 20
    collected = Collected()
    run_available(stream, collected, tmp_path / "checkpoint")
    assert collected.bodies == numbered("o", range(20))
    assert namespace.peek("orders") == []


def test_a_task_that_is_tried_again_reads_the_same(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("o", range(50)))

    # Within the test, so that it travels to workers, which do not know this module.
    def fail_the_first_attempt(body: bytes) -> str:
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0:
            raise RuntimeError("the executor dies")
        return body.decode()

    bodies: list[str] = []

    def process(batch: DataFrame, batch_id: int) -> None:
        text = udf(fail_the_first_attempt, useArrow=False)(batch.body).alias("text")
        bodies.extend(row.text for row in batch.select(text).collect())

    stream = namespace.stream(spark, "orders", settlement="exclusive")
    run_available(stream, process, tmp_path / "checkpoint")
    assert sorted(bodies) == sorted(numbered("o", range(50)))
    assert namespace.peek("orders") == []


def test_two_actions_on_one_batch_see_the_same(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("o", range(30)))
    seen: list[tuple[int, list[str], list[str]]] = []

    def twice(batch: DataFrame, batch_id: int) -> None:
        bodies = [[row.body.decode() for row in batch.collect()] for _ in range(2)]
        seen.append((batch.count(), *bodies))

    stream = namespace.stream(
        spark, "orders", settlement="exclusive", maxMessagesPerBatch=12
    )
    run_available(stream, twice, tmp_path / "checkpoint")
    assert [count for count, _, _ in seen] == [12, 12, 6]
    assert all(first == second for _, first, second in seen)
    assert namespace.peek("orders") == []


def test_delivery_counts_are_left_alone(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("orders", max_delivery_count=1)
    namespace.send("orders", ["one"])

    def fail(batch: DataFrame, batch_id: int) -> None:
        batch.collect()
        raise RuntimeError("away")

    stream = namespace.stream(spark, "orders", settlement="exclusive")
    for _ in range(2):
        with pytest.raises(StreamingQueryException):
            run_available(stream, fail, tmp_path / "checkpoint")
    collected = Collected()
    run_available(stream, collected, tmp_path / "checkpoint")
    assert [(r.body, r.delivery_count) for r in collected.rows] == [(b"one", 0)]


# --- checkpoints ----------------------------------------------------------------


def drained(
    spark: SparkSession, namespace: Namespace, checkpoint: Path
) -> tuple[DataFrame, Collected]:
    """Three batches of ten, processed and settled."""
    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("o", range(10, 40)))
    stream = namespace.stream(
        spark, "orders", settlement="exclusive", maxMessagesPerBatch=10
    )
    collected = Collected()
    run_available(stream, collected, checkpoint)
    assert len(collected.batches) == 3
    return stream, collected


def test_a_commit_that_was_not_written_does_not_stop_the_stream(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    """The batch was done; its messages are settled already, and nothing is missed."""
    checkpoint = tmp_path / "checkpoint"
    stream, _ = drained(spark, namespace, checkpoint)
    forget_batch(checkpoint, "commits", batches_in(checkpoint / "commits")[-1])
    namespace.send("orders", ["later"])
    collected = Collected()
    run_available(stream, collected, checkpoint)
    assert collected.bodies == ["later"]
    assert namespace.peek("orders") == []


def test_a_batch_that_was_not_committed_is_the_same_again(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    """Killed between the sink and Spark's log: the batch is read again, whatever was
    sent meanwhile."""
    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("o", range(10, 20)))
    checkpoint = tmp_path / "checkpoint"
    stream = namespace.stream(
        spark, "orders", settlement="exclusive", maxMessagesPerBatch=6
    )
    seen: list[list[str]] = []

    def die(batch: DataFrame, batch_id: int) -> None:
        seen.append([row.body.decode() for row in batch.collect()])
        namespace.send("orders", ["later"])
        raise RuntimeError("killed")

    with pytest.raises(StreamingQueryException, match="killed"):
        run_available(stream, die, checkpoint)
    collected = Collected()
    run_available(stream, collected, checkpoint)
    first = [row.body.decode() for row in collected.batches[0][1]]
    assert seen == [first] == [numbered("o", range(10, 16))]
    assert collected.bodies == [*numbered("o", range(10, 20)), "later"]
    assert namespace.peek("orders") == []


def test_a_checkpoint_of_long_ago_loses_nothing_that_is_there(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    """Two batches are forgotten: they were settled, what came later is read."""
    checkpoint = tmp_path / "checkpoint"
    stream, _ = drained(spark, namespace, checkpoint)
    for batch in batches_in(checkpoint / "offsets")[-2:]:
        forget_batch(checkpoint, "offsets", batch)
        forget_batch(checkpoint, "commits", batch)
    assert batches_in(checkpoint / "commits") == [0]
    namespace.send("orders", numbered("n", range(5)))
    collected = Collected()
    run_available(stream, collected, checkpoint)
    assert collected.bodies == numbered("n", range(5))
    assert namespace.peek("orders") == []


def test_without_its_checkpoint_a_stream_begins_with_what_is_left(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    stream, _ = drained(spark, namespace, tmp_path / "first")
    namespace.send("orders", ["later"])
    collected = Collected()
    run_available(stream, collected, tmp_path / "second")
    assert collected.bodies == ["later"]


def test_what_was_processed_is_settled_by_the_next_run(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    """`once` ends without another look: the batch is done, and nobody asks again."""
    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("o", range(300)))
    checkpoint = tmp_path / "checkpoint"
    stream = namespace.stream(
        spark, "orders", settlement="exclusive", maxMessagesPerBatch=100
    )
    collected = Collected()
    query = (
        stream.writeStream.foreachBatch(collected)
        .option("checkpointLocation", str(checkpoint))
        .trigger(once=True)
        .start()
    )
    assert query.awaitTermination(90)
    # All there is, whatever the limit of a batch.
    assert sorted(collected.bodies) == sorted(numbered("o", range(300)))
    assert len(collected.batches) == 1
    run_available(stream, collected, checkpoint)
    assert len(collected.bodies) == 300
    assert namespace.peek("orders") == []


# --- others at the same queue ---------------------------------------------------


def test_a_message_that_a_receiver_had_locked_is_not_stranded(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    """Locked before the lease began, abandoned afterwards: it was in the batch."""
    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("o", range(5)))
    collected = Collected()
    stream = namespace.stream(spark, "orders", settlement="exclusive")
    with namespace.receiver("orders") as receiver:
        locked = receiver.receive_messages(2, max_wait_time=10)
        assert len(locked) == 2
        run_available(stream, collected, tmp_path / "checkpoint")
        for message in locked:
            with pytest.raises(Exception, match="lock"):
                receiver.abandon_message(message)
    assert sorted(collected.bodies) == numbered("o", range(5))
    assert namespace.peek("orders") == []


def test_a_session_that_a_receiver_held_is_not_stranded(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("steps", requires_session=True)
    namespace.send(
        "steps", [ServiceBusMessage(f"s{n}", session_id="s") for n in range(3)]
    )
    collected = Collected()
    stream = namespace.stream(spark, "steps", settlement="exclusive")
    with namespace.receiver("steps", session_id="s") as receiver:
        assert len(receiver.receive_messages(1, max_wait_time=10)) == 1
        run_available(stream, collected, tmp_path / "checkpoint")
    assert [(row.session_id, row.body) for row in collected.rows] == [
        ("s", b"s0"),
        ("s", b"s1"),
        ("s", b"s2"),
    ]
    with namespace.receiver("steps", session_id="s") as receiver:
        assert receiver.peek_messages(10) == []


def test_receivers_get_nothing_of_a_batch(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("o", range(5)))
    received: list[str] = []

    def receive(batch: DataFrame, batch_id: int) -> None:
        received.extend(namespace.receive("orders", wait_seconds=1))
        batch.collect()

    stream = namespace.stream(spark, "orders", settlement="exclusive")
    run_available(stream, receive, tmp_path / "checkpoint")
    assert received == []
    assert namespace.peek("orders") == []


def test_the_time_to_live_does_not_touch_a_batch(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    """It runs out between planning and reading."""
    namespace.bus.create_queue("orders")
    namespace.send(
        "orders",
        [
            ServiceBusMessage(f"o{n}", time_to_live=timedelta(seconds=20))
            for n in range(5)
        ],
    )
    bodies: list[str] = []

    def wait(batch: DataFrame, batch_id: int) -> None:
        namespace.bus.advance(30)
        bodies.extend(row.body.decode() for row in batch.collect())

    stream = namespace.stream(spark, "orders", settlement="exclusive")
    run_available(stream, wait, tmp_path / "checkpoint")
    assert sorted(bodies) == numbered("o", range(5))
    assert namespace.peek("orders") == []


def test_deferred_and_scheduled_messages_stay(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("o", range(5)))
    with namespace.receiver("orders") as receiver:
        [message] = receiver.receive_messages(1, max_wait_time=10)
        receiver.defer_message(message)
    later = namespace.bus.now() + timedelta(minutes=30)
    namespace.send(
        "orders",
        [ServiceBusMessage("scheduled", scheduled_enqueue_time_utc=later), "last"],
    )
    collected = Collected()
    stream = namespace.stream(spark, "orders", settlement="exclusive")
    run_available(stream, collected, tmp_path / "checkpoint")
    assert sorted(collected.bodies) == ["last", *numbered("o", range(1, 5))]
    assert sorted(namespace.bodies("orders")) == ["o0", "scheduled"]
    namespace.bus.advance(1801)
    run_available(stream, collected, tmp_path / "checkpoint")
    assert collected.bodies[-1] == "scheduled"
    assert namespace.bodies("orders") == ["o0"]


def test_a_stream_from_a_number_settles_nothing_before_it(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("o", range(8)))
    fifth = namespace.peek("orders")[5].sequence_number
    collected = Collected()
    stream = namespace.stream(
        spark, "orders", settlement="exclusive", fromSequence=fifth
    )
    run_available(stream, collected, tmp_path / "checkpoint")
    assert collected.bodies == numbered("o", range(5, 8))
    assert namespace.bodies("orders") == numbered("o", range(5))


def test_messages_keep_coming_while_a_stream_drains(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("a", range(100)))
    collected = Collected()
    stream = namespace.stream(
        spark, "orders", settlement="exclusive", maxMessagesPerBatch=60
    )
    sent = itertools.count()
    is_over = threading.Event()

    def send() -> None:
        with (
            ServiceBusClient.from_connection_string(
                namespace.bus.connection_string
            ) as client,
            client.get_queue_sender("orders") as sender,
        ):
            while not is_over.is_set():
                sender.send_messages(ServiceBusMessage(f"b{next(sent)}"))

    sending = threading.Thread(target=send)
    with running(stream, collected, tmp_path / "checkpoint") as query:
        sending.start()
        until(lambda: len(collected.rows) > 400, query)
        is_over.set()
        sending.join()
        total = next(sent)
        until(lambda: namespace.peek("orders") == [], query)
    expected = numbered("a", range(100)) + numbered("b", range(total))
    assert sorted(collected.bodies) == sorted(expected)
