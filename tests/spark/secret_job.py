"""Reads, streams, writes and fails, logs everything, and saves the pages of Spark's UI.

    python secret_job.py FOLDER OPTION=VALUE...

Each OPTION is a way to name the bus; they use `orders-0`, `orders-1` and so on.
"""

import sys
import urllib.request
from pathlib import Path

from pyspark.sql import SparkSession

folder = Path(sys.argv[1])
ways = [argument.split("=", 1) for argument in sys.argv[2:]]
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.port", "0")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.eventLog.enabled", "true")
    .config("spark.eventLog.dir", (folder / "events").as_uri())
    .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    .getOrCreate()
)
spark.sparkContext.setLogLevel("DEBUG")


def use(number: int, name: str, value: str) -> None:
    options = {name: value, "entities": f"orders-{number}"}
    found = spark.read.format("servicebus").options(**options).load()
    found.explain("formatted")
    found.explain(True)
    print("count", found.count())
    writer = found.select("body").write.format("servicebus").option(name, value)
    writer.mode("append").save("copies")
    query = (
        spark.readStream.format("servicebus")
        .options(settlement="exclusive", **options)
        .load()
        .writeStream.format("parquet")
        .option("path", str(folder / f"out-{number}"))
        .option("checkpointLocation", str(folder / f"checkpoint-{number}"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    query.explain(True)
    print(query.lastProgress, query.recentProgress)
    for wrong in (
        {"entities": "nowhere"},
        {"maxPartitions": "x"},
        {"connectionStrin": value},
        {"namespace": "http://127.0.0.1:1", "timeout": "1s"},
    ):
        try:
            reading = spark.read.format("servicebus").options(**{**options, **wrong})
            reading.load().count()
        except Exception as error:
            print("told:", error)


def keep_pages() -> None:
    context = spark.sparkContext
    api = f"api/v1/applications/{context.applicationId}"
    pages = [
        "jobs/",
        "stages/",
        "environment/",
        "executors/",
        "SQL/",
        "StreamingQuery/",
    ]
    pages += [f"{api}/{part}" for part in ("environment", "jobs", "stages", "sql")]
    pages += [f"SQL/execution/?id={number}" for number in range(4 * len(ways))]
    for at, page in enumerate(pages):
        with urllib.request.urlopen(f"{context.uiWebUrl}/{page}") as answer:
            (folder / "ui" / f"{at}.html").write_bytes(answer.read())


for number, (name, value) in enumerate(ways):
    use(number, name, value)
keep_pages()
spark.stop()
