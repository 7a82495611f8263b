"""Reads six queues under speculation, settles them, and prints their bodies.

    PYTHONPATH=PACKAGE spark-submit --py-files PACKAGE \\
        reading_twice_job.py CREDENTIAL FOLDER

The first attempt of the first task hands out its rows and then hangs, until Spark
starts a copy of it and ends it. Attempts leave a mark each in the folder.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

credential, folder = sys.argv[1], Path(sys.argv[2])
spark = (
    SparkSession.builder.appName("reading twice")
    .config("spark.speculation", "true")
    .config("spark.speculation.interval", "100ms")
    .config("spark.speculation.minTaskRuntime", "100ms")
    .config("spark.speculation.multiplier", "1.1")
    .config("spark.speculation.quantile", "0.3")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
bodies: list[str] = []


def process(batch: DataFrame, _: int) -> None:
    def slowly(index: int, rows: Iterator[Any]) -> Iterator[str]:
        context = TaskContext.get()
        assert context is not None
        attempt = context.attemptNumber()
        (folder / f"{index}-{attempt}").touch()
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
print(*sorted(bodies))
spark.stop()
