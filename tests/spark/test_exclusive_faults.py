"""A bus that is killed or busy while a stream runs; tasks that run twice."""

import subprocess
import sys
import threading
from pathlib import Path
from textwrap import dedent

from crash.server_process import environment
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


SPECULATIVE = dedent(
    """
    import sys, time
    from pathlib import Path
    from pyspark import TaskContext
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import udf

    folder, credential = Path(sys.argv[1]), sys.argv[2]
    spark = (
        SparkSession.builder.master("local-cluster[2,1,512]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executor.memory", "512m")
        .config("spark.speculation", "true")
        .config("spark.speculation.interval", "50ms")
        .config("spark.speculation.multiplier", "1.1")
        .config("spark.speculation.quantile", "0.3")
        .config("spark.speculation.minTaskRuntime", "50ms")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )

    def slow(body):
        context = TaskContext.get()
        at = f"{context.stageId()}-{context.partitionId()}-{context.attemptNumber()}"
        (folder / "attempts" / at).touch()
        if context.partitionId() == 0 and context.attemptNumber() == 0:
            time.sleep(0.5)
        return body.decode()

    def process(batch, batch_id):
        text = udf(slow, useArrow=False)(batch.body).alias("text")
        batch.select(text).write.mode("overwrite").parquet(str(folder / f"b{batch_id}"))

    query = (
        spark.readStream.format("servicebus")
        .option("credential", credential)
        .option("entities", "q0,q1,q2,q3,q4,q5")
        .option("settlement", "exclusive")
        .option("maxPartitions", "6")
        .load()
        .writeStream.foreachBatch(process)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = spark.read.parquet(*[str(path) for path in folder.glob("b*")])
    print("rows", *sorted(row.text for row in found.collect()))
    spark.stop()
    """
)


def test_tasks_that_run_twice_at_once(namespace: Namespace, tmp_path: Path) -> None:
    """`spark.speculation`: the slow task is read a second time while it runs."""
    expected = []
    for n in range(6):
        namespace.bus.create_queue(f"q{n}")
        namespace.send(f"q{n}", numbered(f"q{n}-", range(20)))
        expected += numbered(f"q{n}-", range(20))
    folder = tmp_path / "application"
    (folder / "attempts").mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-c", SPECULATIVE, str(folder), namespace.credential],
        env={**environment(), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    [line] = [line for line in done.stdout.splitlines() if line.startswith("rows")]
    assert line.split()[1:] == sorted(expected)
    attempts = {path.name for path in (folder / "attempts").iterdir()}
    assert any(name.endswith("-0-1") for name in attempts), "nothing ran twice"
    for n in range(6):
        assert namespace.peek(f"q{n}") == []


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
