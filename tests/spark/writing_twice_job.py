"""Writes rows under speculation: to `ids`, where they have ids, and to `plain`.

    PYTHONPATH=PACKAGE spark-submit --py-files PACKAGE \\
        writing_twice_job.py CREDENTIAL MARKS

The second task hands out its rows and then hangs, until Spark starts a copy of it and
ends it. The copy begins when the bus has rows of the first attempt. Attempts leave a
mark each in the folder MARKS.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import SparkSession

ROWS = (10, 1000)
PADDING = "x" * 500

credential, marks = sys.argv[1:]
spark = (
    SparkSession.builder.appName("speculation")
    .config("spark.speculation", "true")
    .config("spark.speculation.interval", "100ms")
    .config("spark.speculation.minTaskRuntime", "100ms")
    .config("spark.speculation.multiplier", "1.1")
    .config("spark.speculation.quantile", "0.5")
    # Rows are to reach the sink before their task hangs.
    .config("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")


def wait_for_rows(credential: str, queue: str) -> None:
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
    def rows(index: int, _: Iterator[int]) -> Iterator[tuple[str, str]]:
        context = TaskContext.get()
        assert context is not None
        attempt = context.attemptNumber()
        (Path(marks) / f"{queue}-{index}-{attempt}").touch()
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


write("ids", idColumn="message_id")
write("plain")
