"""Drains queues into a folder, up to a moment at which it waits to be killed.

    python drain_job.py FOLDER CREDENTIAL MOMENT OPTION=VALUE...

Its sink is idempotent: a file for each batch, which is written again when the batch
comes again. So what is there at the end is what was read, once. MOMENT is `reading` or
`written`, of a batch that is not the first; with any other it drains to the end.
"""

import json
import sys
import threading
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession


def main() -> None:
    folder, credential, moment = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    options = dict(argument.split("=", 1) for argument in sys.argv[4:])
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    drain(spark, folder, {"credential": credential, **options}, moment)
    spark.stop()


def drain(
    spark: SparkSession, folder: Path, options: dict[str, str], moment: str = ""
) -> None:
    def reach(name: str, batch_id: int) -> None:
        if moment == name and batch_id > 0:
            # The test kills us when it sees this.
            (folder / moment).touch()
            threading.Event().wait()

    def write(batch: DataFrame, batch_id: int) -> None:
        rows = [[row.entity, row.body.decode()] for row in batch.collect()]
        reach("reading", batch_id)
        (folder / "out" / f"{batch_id}.json").write_text(json.dumps(rows))
        reach("written", batch_id)

    query = (
        spark.readStream.format("servicebus")
        .options(**options)
        .load()
        .select("entity", "body")
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
