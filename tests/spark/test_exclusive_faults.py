"""A bus that is killed or busy while a stream runs; ranges that are read twice."""

import threading
from pathlib import Path

from pyspark.sql import SparkSession

from .busy_front import BusyFront
from .harness import Collected, Namespace, numbered, run_available
from .running import running, until
from .served import served


def test_a_bus_that_is_killed_and_comes_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    """SIGKILL, and the same data and port a while later: nothing is lost or doubled,
    and the query goes on by itself."""
    with served(tmp_path, "orders", "billing") as (bus, namespace):
        expected = []
        for name in ("orders", "billing"):
            namespace.send(name, numbered(name, range(400)))
            expected += numbered(name, range(400))
        collected = Collected()
        stream = namespace.stream(
            spark,
            "orders,billing",
            settlement="exclusive",
            maxMessagesPerBatch=100,
            timeout="60s",
        )
        with running(stream, collected, tmp_path / "checkpoint") as query:
            for reached in (100, 400):
                until(lambda least=reached: len(collected.rows) > least, query)
                bus.kill()
                assert query.isActive
                bus.start_now()
            until(lambda: len(collected.rows) >= 800, query)
            until(lambda: namespace.peek("orders") == [], query)
            until(lambda: namespace.peek("billing") == [], query)
        assert sorted(collected.bodies) == sorted(expected)


def test_a_busy_bus_is_waited_for(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    """A2: every kind of request is refused once, and made again."""
    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("o", range(10)))
    with BusyFront(namespace.bus.port) as front:
        front.refusals = {"plan": 1, "browse": 1, "settle": 1}
        collected = Collected()
        stream = namespace.stream(
            spark, "orders", settlement="exclusive", namespace=front.address
        )
        run_available(stream, collected, tmp_path / "checkpoint")
        assert sum(front.refusals.values()) == 0
        assert [status for _, status in front.requests].count(503) == 3
    assert sorted(collected.bodies) == numbered("o", range(10))
    assert namespace.peek("orders") == []


def test_one_range_is_read_by_many_at_once(namespace: Namespace) -> None:
    """Reading takes nothing and locks nothing."""
    from twinbus.spark.source import batch_reader, schema_of

    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("o", range(200)))
    options = namespace.options("orders", maxPartitions=1)
    reader = batch_reader(options, schema_of(options))
    [part] = reader.partitions()
    counts: list[int] = []

    def read() -> None:
        counts.append(sum(batch.num_rows for batch in reader.read(part)))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [200] * 4
