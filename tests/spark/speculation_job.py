"""Writes and reads under speculation, where a task hangs until Spark starts a copy.

    PYTHONPATH=PACKAGE spark-submit --py-files PACKAGE \\
        speculation_job.py CREDENTIAL FOLDER

It writes rows to `ids`, where they have ids, and to `plain`. Then it reads the queues
`q0` to `q5`, settles them and prints their bodies. One task of each hands out its rows
and then hangs, until Spark starts a copy of it and ends it. Attempts leave a mark each
in the folder.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

ROWS = (10, 1000)
PADDING = "x" * 500

credential, folder = sys.argv[1], Path(sys.argv[2])
spark = (
    SparkSession.builder.appName("speculation")
    .config("spark.speculation", "true")
    .config("spark.speculation.interval", "100ms")
    .config("spark.speculation.minTaskRuntime", "100ms")
    .config("spark.speculation.multiplier", "1.1")
    .config("spark.speculation.quantile", "0.3")
    # Rows are to reach the sink before their task hangs.
    .config("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")


def attempt_number(name: str) -> int:
    """That of this task, which leaves its mark."""
    context = TaskContext.get()
    assert context is not None
    attempt = context.attemptNumber()
    (folder / f"{name}-{attempt}").touch()
    return attempt


# --- writing ----------------------------------------------------------------------


def wait_for_rows(credential: str, queue: str) -> None:
    """Until the bus has some of the first attempt."""
    from twinbus.spark.bulk.client import BulkClient
    from twinbus.spark.connection import read_connection
    from twinbus.spark.option_reader import OptionReader

    connection = read_connection(OptionReader({"credential": credential}))
    client = BulkClient(connection, 10_000)
    while True:
        [bounds], _ = client.runtime([queue])
        if sum(part.active_count for part in bounds.fragments) > ROWS[0]:
            client.close()
            return
        time.sleep(0.05)


def write(queue: str, **options: str) -> None:
    """The second task hangs."""

    def rows(index: int, _: Iterator[int]) -> Iterator[tuple[str, str]]:
        attempt = attempt_number(f"{queue}-{index}")
        if attempt:
            wait_for_rows(credential, queue)
        for number in range(ROWS[index]):
            yield f"{index}-{number}", f"{index}-{number} {PADDING}"
        while index and not attempt:
            time.sleep(0.05)

    pairs = spark.sparkContext.parallelize(range(2), 2).mapPartitionsWithIndex(rows)
    frame = spark.createDataFrame(pairs, "message_id string, body string")
    writer = frame.write.format("servicebus").option("credential", credential)
    writer = writer.option("maxBytesPerRequest", "8k").options(**options)
    writer.mode("append").save(queue)


# --- reading ----------------------------------------------------------------------


def read() -> list[str]:
    """The first task hangs."""
    bodies: list[str] = []

    def process(batch: DataFrame, _: int) -> None:
        def slowly(index: int, rows: Iterator[Any]) -> Iterator[str]:
            attempt = attempt_number(f"read-{index}")
            yield from (row.body.decode() for row in rows)
            while not index and not attempt:
                time.sleep(0.05)

        bodies.extend(batch.rdd.mapPartitionsWithIndex(slowly).collect())

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
    return bodies


write("ids", idColumn="message_id")
write("plain")
print(*sorted(read()))
spark.stop()
