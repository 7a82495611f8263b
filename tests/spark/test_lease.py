"""The lease of a stream: who holds it, how long, and what happens when it ends."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

import pytest
from crash.server_process import environment
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadMaxRows

from twinbus.spark.bulk.channel import Channel
from twinbus.spark.bulk.client import BulkClient
from twinbus.spark.bulk.leases import Leases
from twinbus.spark.connection import SparkConnection
from twinbus.spark.secret import Secret
from twinbus.spark.source import schema_of, stream_reader

from .harness import Collected, Namespace, numbered, run_available
from .running import running, until
from .served import served


def connection(namespace: Namespace) -> SparkConnection:
    return SparkConnection(secret=Secret(text=namespace.bus.connection_string))


@contextmanager
def somebody_else(namespace: Namespace, queue: str) -> Iterator[BulkClient]:
    """Another reader, which holds the lease of a queue."""
    client = BulkClient(connection(namespace), 10_000)
    client.take("somebody else", 60_000, [queue])
    try:
        yield client
    finally:
        client.close()


def lease_ms(namespace: Namespace, queue: str) -> int:
    """How long the lease of a queue lasts, if nobody renews it; 0: there is none."""
    channel = Channel(connection(namespace), 10_000)
    answer = channel.post("runtime", {"entities": [queue]})
    channel.close()
    lease = answer["entities"][0]["fragments"][0]["lease"]
    return int(lease["expires_in_ms"]) if lease else 0


def test_a_lease_that_another_holds_is_told(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", ["one"])
    stream = namespace.stream(spark, "orders", settlement="exclusive", leaseWait="1s")
    with somebody_else(namespace, "orders"):
        told = r"lease of 'orders' is held by the reader 'somebody else' for \d+ more"
        with pytest.raises(StreamingQueryException, match=told):
            run_available(stream, Collected(), tmp_path / "checkpoint")
    assert len(namespace.peek("orders")) == 1


def test_a_lease_that_another_holds_is_waited_for(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", ["one"])
    collected = Collected()
    stream = namespace.stream(spark, "orders", settlement="exclusive")
    with (
        somebody_else(namespace, "orders"),
        running(stream, collected, tmp_path / "checkpoint") as query,
    ):
        until(lambda: "offset" in query.status["message"], query)
        assert collected.rows == []
        namespace.bus.advance(61)
        until(lambda: collected.rows, query)
        until(lambda: namespace.peek("orders") == [], query)


def test_looking_needs_no_lease(spark: SparkSession, namespace: Namespace) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", ["one"])
    with somebody_else(namespace, "orders"):
        assert namespace.read(spark, "orders").count() == 1


def test_a_second_query_on_one_queue_is_told(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", ["one"])
    first, second = Collected(), Collected()
    stream = namespace.stream(spark, "orders", settlement="exclusive", leaseWait="1s")
    with running(stream, first, tmp_path / "first") as query:
        until(lambda: first.rows, query)
        with pytest.raises(StreamingQueryException, match="lease of 'orders' is held"):
            run_available(stream, second, tmp_path / "second")
        # The first is none the worse for it.
        namespace.send("orders", ["two"])
        until(lambda: namespace.peek("orders") == [], query)
    assert first.bodies == ["one", "two"]
    assert second.bodies == []


def test_a_stream_may_be_united_with_itself(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("o", range(5)))
    stream = namespace.stream(spark, "orders", settlement="exclusive", leaseWait="1s")
    collected = Collected()
    run_available(stream.union(stream), collected, tmp_path / "checkpoint")
    assert sorted(collected.bodies) == sorted(numbered("o", range(5)) * 2)
    assert namespace.peek("orders") == []


def test_two_sources_of_one_queue_in_one_query_are_told(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("o", range(5)))
    streams = [
        namespace.stream(
            spark, "orders", settlement="exclusive", leaseWait="1s", timeout=timeout
        )
        for timeout in ("10s", "11s")
    ]
    with pytest.raises(StreamingQueryException, match="lease of 'orders' is held"):
        run_available(streams[0].union(streams[1]), Collected(), tmp_path / "c")
    assert len(namespace.peek("orders")) == 5


def test_a_lease_is_renewed_through_a_long_batch(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    """Also that of one queue while another one is deleted."""
    for name in ("orders", "billing"):
        namespace.bus.create_queue(name)
        namespace.send(name, ["one"])
    seen: list[int] = []

    def work_long(batch: DataFrame, batch_id: int) -> None:
        namespace.bus.delete_queue("billing")
        for _ in range(3):
            namespace.bus.advance(4)
            until(lambda: lease_ms(namespace, "orders") > 4_500)
        seen.append(batch.where("entity = 'orders'").count())

    stream = namespace.stream(
        spark,
        "orders,billing",
        settlement="exclusive",
        leaseDuration="5s",
        failOnDataLoss="false",
    )
    with running(stream, work_long, tmp_path / "checkpoint") as query:
        until(lambda: seen, query)
        until(lambda: namespace.peek("orders") == [], query)
    assert seen == [1]


def test_a_lease_that_ends_within_a_batch_is_taken_again(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    """The driver stood still for so long that others got their turn. What they took is
    theirs; the rest of what was processed is settled."""
    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("o", range(6)))
    collected, received = Collected(), []

    def stand_still(batch: DataFrame, batch_id: int) -> None:
        collected(batch, batch_id)
        if not received:
            namespace.bus.advance(600)
            received.extend(namespace.receive("orders", 2))

    stream = namespace.stream(
        spark, "orders", settlement="exclusive", maxMessagesPerBatch=4
    )
    run_available(stream, stand_still, tmp_path / "checkpoint")
    assert received == ["o0", "o1"]
    assert collected.bodies == numbered("o", range(6))
    assert namespace.peek("orders") == []


def test_messages_that_were_taken_after_the_lease_had_ended_are_told(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("o", range(6)))

    def read_late(batch: DataFrame, batch_id: int) -> None:
        namespace.bus.advance(600)
        assert len(namespace.receive("orders", 2)) == 2
        batch.collect()

    stream = namespace.stream(spark, "orders", settlement="exclusive")
    with pytest.raises(StreamingQueryException, match="2 of 6 messages of 'orders'"):
        run_available(stream, read_late, tmp_path / "checkpoint")


def test_a_query_that_comes_back_is_known_by_its_checkpoint(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    """Its own lease of before is no obstacle, though no time has passed."""
    namespace.bus.create_queue("orders")
    namespace.send("orders", ["one"])
    collected = Collected()
    stream = namespace.stream(spark, "orders", settlement="exclusive", leaseWait="0s")
    for body in ("two", "three"):
        with running(stream, collected, tmp_path / "checkpoint") as query:
            until(lambda: namespace.peek("orders") == [], query)
        assert lease_ms(namespace, "orders") > 0
        namespace.send("orders", [body])
    run_available(stream, collected, tmp_path / "checkpoint")
    assert collected.bodies == ["one", "two", "three"]


# --- by the machine's clock -----------------------------------------------------


def test_the_lease_ends_with_the_query(spark: SparkSession, tmp_path: Path) -> None:
    """Stopped, or failed: nobody renews it any more, and receivers are served."""
    with served(tmp_path, "orders") as (_, namespace):
        stream = namespace.stream(
            spark, "orders", settlement="exclusive", leaseDuration="5s"
        )
        collected = Collected()
        namespace.send("orders", ["one"])
        with running(stream, collected, tmp_path / "stopped") as query:
            until(lambda: namespace.peek("orders") == [], query)
        namespace.send("orders", ["two"])
        until(lambda: namespace.receive("orders", 1, 1) == ["two"])

        def fail(batch: DataFrame, batch_id: int) -> None:
            raise RuntimeError("away")

        namespace.send("orders", ["three"])
        with pytest.raises(StreamingQueryException, match="away"):
            run_available(stream, fail, tmp_path / "failed")
        until(lambda: namespace.receive("orders", 1, 1) == ["three"])


def renewing() -> int:
    """How many threads renew leases in this process."""
    names = [thread.name for thread in threading.enumerate()]
    return names.count("servicebus-leases")


def test_a_reader_that_is_stopped_renews_nothing_any_more(namespace: Namespace) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", ["one"])
    options = namespace.options("orders", settlement="exclusive")
    reader = stream_reader(options, schema_of(options))
    reader.latestOffset(reader.initialOffset(), ReadMaxRows(10))
    assert renewing() == 1
    reader.stop()
    assert renewing() == 0
    # A query that was stopped may come back: its lease is not given away.
    assert lease_ms(namespace, "orders") > 0


def test_nobody_renews_what_is_not_held_any_more(tmp_path: Path) -> None:
    with served(tmp_path, "orders", "offers") as (_, namespace):
        client = BulkClient(connection(namespace), 10_000)
        leases = Leases(client, connection(namespace), "r", 5_000, 0)
        # What is held again is renewed again.
        for _ in range(2):
            leases.hold(["orders", "offers"])
            leases.release(["offers"])
            until(lambda: 0 < lease_ms(namespace, "orders") < 4_000)
            until(lambda: lease_ms(namespace, "orders") > 4_500)
            assert renewing() == 1
            leases.release()
            until(lambda: renewing() == 0)
            assert lease_ms(namespace, "orders") == 0
        client.close()


HOLDER = dedent(
    """
    import sys, threading
    from twinbus.spark.bulk.client import BulkClient
    from twinbus.spark.bulk.leases import Leases
    from twinbus.spark.connection import SparkConnection
    from twinbus.spark.secret import Secret

    connection = SparkConnection(secret=Secret(text=sys.argv[1]))
    leases = Leases(BulkClient(connection, 10_000), connection, "r", 5_000, 0)
    leases.hold(["orders"])
    print("held", flush=True)
    threading.Event().wait(600)
    """
)

PARENT = dedent(
    """
    import subprocess, sys, threading
    child = subprocess.Popen([sys.executable, "-c", *sys.argv[1:]])
    print(child.pid, flush=True)
    threading.Event().wait(600)
    """
)


def test_the_lease_ends_with_the_driver(tmp_path: Path) -> None:
    """The driver is killed; its Python process, hanging somewhere, outlives it."""
    with served(tmp_path, "orders") as (bus, namespace):
        namespace.send("orders", ["one"])
        parent = subprocess.Popen(
            [sys.executable, "-c", PARENT, HOLDER, bus.connection_string],
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert parent.stdout is not None
        lines = [parent.stdout.readline().strip() for _ in range(2)]
        child = int(next(line for line in lines if line != "held"))
        try:
            # It is renewed while the parent lives.
            for _ in range(2):
                until(lambda: 0 < lease_ms(namespace, "orders") < 4_000)
                until(lambda: lease_ms(namespace, "orders") > 4_500)
            parent.kill()
            parent.wait()
            until(lambda: namespace.receive("orders", 1, 1) == ["one"])
            assert Path(f"/proc/{child}").exists(), "it was to outlive its parent"
        finally:
            parent.kill()
            parent.wait()
            parent.stdout.close()
            subprocess.run(["kill", "-9", str(child)], check=False)
