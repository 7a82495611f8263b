"""A job as a user would submit it: reads `orders`, settles it, sends all to `copies`.

    PYTHONPATH=PACKAGE spark-submit --py-files PACKAGE \
        cluster_job.py CREDENTIAL CHECKPOINT

It prints a line of JSON: the folders in which tasks ran, and where they found the
package.
"""

import json
import sys

from pyspark.sql import DataFrame, Row, SparkSession

credential, checkpoint = sys.argv[1:]
spark = SparkSession.builder.appName("cluster").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
places: set[tuple[str, str]] = set()


def place(_: Row) -> tuple[str, str]:
    import os

    import twinbus

    return os.getcwd(), twinbus.__file__


def copy(batch: DataFrame, _: int) -> None:
    places.update(batch.rdd.map(place).distinct().collect())
    writer = batch.select("message_id", "body").write.format("servicebus")
    writer.mode("append").option("credential", credential).save("copies")


stream = (
    spark.readStream.format("servicebus")
    .option("credential", credential)
    .option("settlement", "exclusive")
    .option("maxMessagesPerBatch", 20_000)
    .load("orders")
)
query = (
    stream.writeStream.foreachBatch(copy)
    .option("checkpointLocation", checkpoint)
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
print(json.dumps(sorted(places)))
spark.stop()
