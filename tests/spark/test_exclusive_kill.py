"""The whole Spark application is killed with SIGKILL while it drains queues.

Its sink is idempotent: a folder of Parquet for each batch, which is overwritten when
the batch comes again. So what is there at the end is what was read, once.
"""

from pathlib import Path
from textwrap import dedent

import pyarrow.dataset as ds
import pytest
from azure.servicebus import ServiceBusMessage

from .application import Application
from .harness import Namespace
from .running import batches_in

APPLICATION = dedent(
    """
    import sys, threading
    from pathlib import Path
    from pyspark.sql import SparkSession

    folder, credential, moment = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )

    def reach(name, batch_id):
        # The test kills us when it sees this.
        if moment == name and batch_id > 0:
            (folder / moment).touch()
            threading.Event().wait()

    def write(batch, batch_id):
        if moment == "reading":
            batch.count()
        reach("reading", batch_id)
        out = str(folder / "out" / f"batch={batch_id}")
        batch.select("entity", "session_id", "sequence_number", "body").write.mode(
            "overwrite"
        ).parquet(out)
        reach("written", batch_id)

    query = (
        spark.readStream.format("servicebus")
        .option("credential", credential)
        .option("entities", "a,b")
        .option("settlement", "exclusive")
        .option("maxMessagesPerBatch", "150")
        .load()
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()
    """
)


@pytest.mark.timeout(900)
def test_nothing_is_lost_doubled_or_left(namespace: Namespace, tmp_path: Path) -> None:
    expected = set()
    for queue in ("a", "b"):
        namespace.bus.create_queue(queue)
        bodies = [f"{queue}{n}" for n in range(600)]
        namespace.send(
            queue,
            [ServiceBusMessage(body, session_id=body[-1]) for body in bodies],
        )
        expected |= {(queue, body.encode()) for body in bodies}
    folder = tmp_path / "application"
    (folder / "out").mkdir(parents=True)
    commits = folder / "checkpoint" / "commits"

    def start(moment: str) -> Application:
        arguments = (str(folder), namespace.credential, moment)
        return Application(folder, "-c", APPLICATION, *arguments)

    # While a batch is read; when its sink has it and Spark's log has not; when the log
    # has it, about when it is settled and the next one is planned.
    start("reading").kill_when((folder / "reading").exists)
    start("written").kill_when((folder / "written").exists)
    done = len(batches_in(commits))
    start("committed").kill_when(lambda: len(batches_in(commits)) >= done + 2)
    start("end").finish()

    found = ds.dataset(folder / "out", format="parquet", partitioning="hive")
    rows = [(row["entity"], row["body"]) for row in found.to_table().to_pylist()]
    assert len(rows) == len(expected)
    assert set(rows) == expected
    assert namespace.peek("a") == [] == namespace.peek("b")
