"""What twinbus needs of a PySpark, as a program: `test_versions` runs it with another
PySpark in front of the path.

    version_contract.py CREDENTIAL FOLDER

It reads the queue `available` to its end, sends what it read to `copies`, and then
reads `quiet` until its input ends. It prints a line of JSON for each step.
"""

import json
import os
import sys
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame, SparkSession


def session(folder: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder / "local"))
        .getOrCreate()
    )


def tell(**values: object) -> None:
    print(json.dumps(values), flush=True)


def workers_version(spark: SparkSession) -> str:
    def ask(_: int) -> str:
        import pyspark

        return pyspark.__version__

    [version] = spark.sparkContext.parallelize([0], 1).map(ask).collect()
    return version


def stream(spark: SparkSession, credential: str, entity: str) -> DataFrame:
    return (
        spark.readStream.format("servicebus")
        .option("credential", credential)
        .option("settlement", "exclusive")
        .option("maxMessagesPerBatch", 20)
        .load(entity)
    )


def read_what_is_there(spark: SparkSession, credential: str, folder: Path) -> None:
    bodies: list[str] = []

    def keep(batch: DataFrame, _: int) -> None:
        batch.persist()
        bodies.extend(row.body.decode() for row in batch.select("body").collect())
        copies = batch.select("message_id", "body")
        copies.write.format("servicebus").mode("append").option(
            "credential", credential
        ).save("copies")
        batch.unpersist()

    query = (
        stream(spark, credential, "available")
        .writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(folder / "available"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    tell(step="available", bodies=bodies)


def read_a_queue_that_goes_quiet(
    spark: SparkSession, credential: str, folder: Path
) -> None:
    def count(batch: DataFrame, _: int) -> None:
        tell(step="batch", count=batch.count())

    query = (
        stream(spark, credential, "quiet")
        .writeStream.foreachBatch(count)
        .option("checkpointLocation", str(folder / "quiet"))
        .trigger(processingTime="1 second")
        .start()
    )
    sys.stdin.read()
    tell(step="quiet", is_active=query.isActive, error=str(query.exception() or ""))
    query.stop()


def main() -> None:
    credential, folder = sys.argv[1], Path(sys.argv[2])
    spark = session(folder)
    spark.sparkContext.setLogLevel("ERROR")
    tell(step="versions", driver=pyspark.__version__, worker=workers_version(spark))
    read_what_is_there(spark, credential, folder)
    read_a_queue_that_goes_quiet(spark, credential, folder)
    spark.stop()


if __name__ == "__main__":
    main()
