"""Writes build/spark-classes.jsa, an archive of the Java classes that Spark uses.

    .venv/bin/python scripts/spark_classes.py

A JVM that starts from it needs half of the processor's time: it does not have to read
and check some ten thousand classes. The tests start about forty JVMs. Java ignores an
archive that is missing, or that was made for other jars or another Java, and reads the
classes as usual.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).parents[1]
ARCHIVE = ROOT / "build" / "spark-classes.jsa"

# JVMs of tests live for seconds: the better compiler and several threads of garbage
# collection cost more than they bring back.
SHORT_LIFE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# To stderr: what Java says of an archive that it ignores would be taken for the output
# of a program, and Spark's launcher prints commands.
LOG = "-Xlog:disable -Xlog:all=error:stderr"
JAVA_OPTIONS = f"{SHORT_LIFE} {LOG} -XX:SharedArchiveFile={ARCHIVE}"


def main() -> None:
    ARCHIVE.parent.mkdir(exist_ok=True)
    draft = ARCHIVE.with_suffix(f".{os.getpid()}")
    # Java writes the archive when the JVM ends.
    record = f"{SHORT_LIFE} {LOG} -XX:ArchiveClassesAtExit={draft}"
    print(f"Writing {ARCHIVE.relative_to(ROOT)}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        _use_spark(Path(folder), record)
    draft.rename(ARCHIVE)


def _use_spark(folder: Path, java_options: str) -> None:
    """Do what most tests do, so that their classes are loaded."""
    from twinbus.testing import Bus

    spark = _session(folder, java_options)
    with Bus() as bus:
        for queue in ("orders", "copies"):
            bus.create_queue(queue)
        _write_and_read(spark, bus.connection_string, folder / "checkpoint")
        spark.stop()
    # The JVM ends with its input.
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    gateway.proc.stdin.close()
    gateway.proc.wait()


def _session(folder: Path, java_options: str) -> "SparkSession":
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.extraJavaOptions", java_options)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _write_and_read(spark: "SparkSession", bus: str, checkpoint: Path) -> None:
    """From `orders` to `copies`, by a stream."""

    def write(frame: "DataFrame", queue: str) -> None:
        writer = frame.write.format("servicebus").mode("append")
        writer.option("connectionString", bus).save(queue)

    def process(batch: "DataFrame", _: int) -> None:
        batch.persist()
        batch.groupBy("entity").count().orderBy("entity").collect()
        batch.rdd.map(lambda row: row.body).collect()
        write(batch.select("body"), "copies")
        batch.unpersist()

    write(spark.createDataFrame([("a",), ("b",)], "body string"), "orders")
    query = (
        spark.readStream.format("servicebus")
        .option("connectionString", bus)
        .option("settlement", "exclusive")
        .load("orders")
        .writeStream.foreachBatch(process)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
