"""The whole Spark application is killed with SIGKILL while it drains queues."""

from pathlib import Path

import pytest
from azure.servicebus import ServiceBusMessage
from pyspark.sql import SparkSession

from .application import Drain
from .harness import Namespace
from .running import batches_in


@pytest.mark.timeout(900)
def test_nothing_is_lost_doubled_or_left(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    expected = set()
    for queue in ("a", "b"):
        namespace.bus.create_queue(queue)
        bodies = [f"{queue}{n}" for n in range(600)]
        namespace.send(
            queue,
            [ServiceBusMessage(body, session_id=body[-1]) for body in bodies],
        )
        expected |= {(queue, body) for body in bodies}
    drain = Drain(
        tmp_path / "application",
        namespace.credential,
        entities="a,b",
        settlement="exclusive",
        maxMessagesPerBatch=150,
    )
    commits = drain.folder / "checkpoint" / "commits"

    # While a batch is read; when its sink has it and Spark's log has not; when the log
    # has it, about when it is settled and the next one is planned.
    drain.start("reading").kill_when((drain.folder / "reading").exists)
    drain.start("written").kill_when((drain.folder / "written").exists)
    done = len(batches_in(commits))
    drain.start("committed").kill_when(lambda: len(batches_in(commits)) >= done + 2)
    drain.finish(spark)

    rows = drain.rows()
    assert len(rows) == len(expected)
    assert set(rows) == expected
    assert namespace.peek("a") == [] == namespace.peek("b")
