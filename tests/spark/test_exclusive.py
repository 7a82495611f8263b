"""S1: a stream that owns its queue, and settles what was processed."""

from pathlib import Path

from pyspark.sql import SparkSession

from .harness import Collected, Namespace, numbered, run_available


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
