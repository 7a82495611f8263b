"""The size of a micro-batch: messages, bytes, a share for each entity, one time."""

from itertools import pairwise
from pathlib import Path

from pyspark.sql import SparkSession

from .harness import Collected, Namespace, numbered, run_available
from .running import running, until


def sizes(collected: Collected) -> list[int]:
    return [len(rows) for _, rows in collected.batches]


def test_messages_of_a_batch(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("o", range(100)))
    collected = Collected()
    stream = namespace.stream(spark, "orders", maxMessagesPerBatch=40)
    run_available(stream, collected, tmp_path / "checkpoint")
    assert sizes(collected) == [40, 40, 20]
    assert collected.bodies == numbered("o", range(100))


def test_bytes_of_a_batch(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("large")
    for n in range(10):
        namespace.send("large", [f"{n}" + "x" * 50_000])
    collected = Collected()
    stream = namespace.stream(spark, "large", maxBytesPerBatch="150k")
    run_available(stream, collected, tmp_path / "checkpoint")
    assert sum(sizes(collected)) == 10
    # A batch is full with the message that reaches the limit.
    assert sizes(collected)[:3] == [4, 4, 2]


def test_a_message_over_the_limit_is_a_batch_of_its_own(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("large")
    namespace.send("large", ["x" * 50_000, "y" * 50_000])
    collected = Collected()
    stream = namespace.stream(
        spark, "large", settlement="exclusive", maxBytesPerBatch=1
    )
    run_available(stream, collected, tmp_path / "checkpoint")
    assert sizes(collected) == [1, 1]
    assert namespace.peek("large") == []


def test_every_queue_has_its_share(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    """A long backlog does not keep a short one waiting."""
    for name, count in (("long", 900), ("short", 90), ("single", 1)):
        namespace.bus.create_queue(name)
        namespace.send(name, numbered(name, range(count)))
    collected = Collected()
    stream = namespace.stream(
        spark, "long,short,single", settlement="exclusive", maxMessagesPerBatch=100
    )
    run_available(stream, collected, tmp_path / "checkpoint")
    _, first = collected.batches[0]
    counts = {
        name: sum(row.entity == name for row in first)
        for name in ("long", "short", "single")
    }
    assert counts["single"] == 1
    assert 8 <= counts["short"] <= 10
    assert 88 <= counts["long"] <= 92
    assert len(collected.rows) == 991
    assert len(collected.batches) <= 12


def test_what_was_looked_at_earns_no_share(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    """Messages that stay behind a stream that only looks are no backlog of it."""
    namespace.bus.create_queue("old")
    namespace.bus.create_queue("new")
    namespace.send("old", numbered("o", range(2000)))
    stream = namespace.stream(spark, "old,new", maxMessagesPerBatch=2000)
    run_available(stream, Collected(), tmp_path / "checkpoint")
    namespace.send("new", numbered("n", range(100)))
    collected = Collected()
    stream = namespace.stream(spark, "old,new", maxMessagesPerBatch=100)
    run_available(stream, collected, tmp_path / "checkpoint")
    assert sizes(collected) == [100]


def test_aligned_batches_reach_up_to_one_time(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    """What was sent to one queue and then to another is never read the other way
    round."""
    namespace.bus.create_queue("a")
    namespace.bus.create_queue("b")
    for minute in range(20):
        # Of most minutes one has more than the other.
        namespace.send("a", [f"{minute:02}"] * (1 + minute % 3))
        namespace.send("b", [f"{minute:02}"] * (1 + minute % 2))
        namespace.bus.advance(60)
    collected = Collected()
    stream = namespace.stream(
        spark, "a,b", settlement="exclusive", alignment="time", maxMessagesPerBatch=7
    )
    run_available(stream, collected, tmp_path / "checkpoint")
    minutes = [
        sorted({row.body.decode() for row in rows}) for _, rows in collected.batches
    ]
    assert len(minutes) >= 7
    for earlier, later in pairwise(minutes):
        assert earlier[-1] < later[0], "a minute is in two batches, or out of turn"
    assert sum(sizes(collected)) == sum(2 + n % 3 + n % 2 for n in range(20))
    assert namespace.peek("a") == [] == namespace.peek("b")


def test_available_now_ends_with_what_was_there(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    """Senders that go on do not keep it from ending."""
    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("o", range(10)))
    collected = Collected()

    def send_more(batch: object, batch_id: int) -> None:
        collected(batch, batch_id)  # type: ignore[arg-type]
        namespace.send("orders", [f"later{batch_id}"])

    stream = namespace.stream(
        spark, "orders", settlement="exclusive", maxMessagesPerBatch=4
    )
    run_available(stream, send_more, tmp_path / "checkpoint")
    assert collected.bodies == numbered("o", range(10))
    assert namespace.bodies("orders") == ["later0", "later1", "later2"]


def test_a_limit_holds_in_a_running_stream_too(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("o", range(30)))
    collected = Collected()
    stream = namespace.stream(
        spark, "orders", settlement="exclusive", maxMessagesPerBatch=10
    )
    with running(stream, collected, tmp_path / "checkpoint") as query:
        until(lambda: namespace.peek("orders") == [], query)
    assert sizes(collected) == [10, 10, 10]
