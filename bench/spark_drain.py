"""A queue drained by a stream that owns it, and what memory that takes meanwhile.

The stream settles what it has read and writes it to nothing: what is measured is the
way from the bus into Spark. Memory is sampled twice a second, of the bus, of Spark's
JVM, and of the Python processes below it; it must not grow with what has been read.
"""

import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql.functions import count, lit

from bench.processes import usage_of, usage_of_tree
from bench.spark_reading import fill
from bench.spark_results import DrainedResult, Sample
from bench.spark_session import connection_string, credential, spark_processes
from bench.twinbus_server import TwinbusServer

_BATCH = 50_000
_SAMPLE_SECONDS = 0.5


def measure_drain(spark: SparkSession, messages: int) -> DrainedResult:
    with (
        TwinbusServer() as server,
        credential(connection_string(server.target)) as named,
        tempfile.TemporaryDirectory(prefix="bench-drain-") as folder,
    ):
        fill(server, messages)
        stream = (
            spark.readStream.format("servicebus")
            .option("credential", named)
            .option("settlement", "exclusive")
            .option("maxMessagesPerBatch", _BATCH)
            .load(server.target.address)
        )
        batches: list[int] = []
        done_at: list[float] = []
        with Sampler(server.pid) as sampler:
            began_at = time.monotonic()
            query = (
                stream.writeStream.foreachBatch(_counting(batches, done_at))
                .option("checkpointLocation", str(Path(folder) / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            seconds = time.monotonic() - began_at
        left = spark.read.format("servicebus").option("credential", named)
        return DrainedResult(
            messages=messages,
            seconds=seconds,
            batches=batches,
            left=left.load(server.target.address).count(),
            warm_at=done_at[0] - began_at,
            samples=sampler.samples,
        )


def _counting(
    batches: list[int], done_at: list[float]
) -> Callable[[DataFrame, int], None]:
    def count_rows(batch: DataFrame, _: int) -> None:
        seen = Observation()
        observed = batch.observe(seen, count(lit(1)).alias("rows"))
        observed.write.format("noop").mode("overwrite").save()
        batches.append(int(seen.get["rows"]))
        done_at.append(time.monotonic())

    return count_rows


class Sampler:
    """Memory of all that takes part, from entering to leaving."""

    def __init__(self, server_pid: int) -> None:
        self.samples: list[Sample] = []
        self._server_pid = server_pid
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> "Sampler":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _sample(self) -> None:
        began_at = time.monotonic()
        while not self._is_over.wait(_SAMPLE_SECONDS):
            jvm, pythons = spark_processes()
            self.samples.append(
                Sample(
                    at=time.monotonic() - began_at,
                    bus_bytes=usage_of_tree(self._server_pid).anonymous_bytes,
                    jvm_bytes=usage_of([jvm]).anonymous_bytes,
                    python_bytes=usage_of(pythons).anonymous_bytes,
                )
            )
