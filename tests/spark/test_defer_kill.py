"""A Spark application that defers is killed with SIGKILL: while it defers, before
anything of that is in Spark's log; and when its sink has a batch and the log has not.

Its sink is idempotent: a file for each batch, which is written again when the batch
comes again. So what is there at the end is what was read, once.
"""

import asyncio
import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessageState

from twinbus.server import management

from .application import Application
from .harness import Namespace, numbered
from .running import batches_in

APPLICATION = dedent(
    """
    import json, sys, threading
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

    def write(batch, batch_id):
        bodies = [row.body.decode() for row in batch.select("body").collect()]
        (folder / "out" / f"{batch_id}.json").write_text(json.dumps(bodies))
        if moment == "written" and bodies:
            # The test kills us when it sees this.
            (folder / moment).touch()
            threading.Event().wait()

    query = (
        spark.readStream.format("servicebus")
        .option("credential", credential)
        .option("entities", "orders")
        .option("settlement", "defer")
        .option("maxMessagesPerBatch", "800")
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


def hold_second_deferral(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The bus answers the first request to defer and no other; returns those that it
    keeps waiting."""
    claim, update = management._OPERATIONS["update-disposition"]
    answered: list[Any] = []
    waiting: list[Any] = []

    async def hold(queue: Any, request: Any) -> Any:
        if answered:
            waiting.append(request)
            await asyncio.Event().wait()
        answered.append(request)
        return await update(queue, request)

    monkeypatch.setitem(management._OPERATIONS, "update-disposition", (claim, hold))
    return waiting


@pytest.mark.timeout(1000)
def test_nothing_is_lost_doubled_or_left(strict: Namespace, tmp_path: Path) -> None:
    strict.bus.create_queue("orders")
    expected = numbered("o", range(1200))
    strict.send("orders", expected)
    folder = tmp_path / "application"
    (folder / "out").mkdir(parents=True)

    def start(moment: str) -> Application:
        arguments = (str(folder), strict.credential, moment)
        return Application(folder, "-c", APPLICATION, *arguments)

    with pytest.MonkeyPatch.context() as monkeypatch:
        waiting = hold_second_deferral(monkeypatch)
        start("deferring").kill_when(lambda: waiting)
    # What is deferred is named nowhere: Spark knows of the empty first batch alone.
    assert batches_in(folder / "checkpoint" / "offsets") == [0]
    orphans = [
        message
        for message in strict.peek("orders", 2000)
        if message.state == ServiceBusMessageState.DEFERRED
    ]
    assert 0 < len(orphans) < 800
    # Locks of the dead end in time.
    strict.bus.advance(120)

    start("written").kill_when((folder / "written").exists)
    start("end").finish()

    read = [
        body
        for file in (folder / "out").glob("*.json")
        for body in json.loads(file.read_text())
    ]
    assert sorted(read) == sorted(expected)
    assert strict.peek("orders") == []
