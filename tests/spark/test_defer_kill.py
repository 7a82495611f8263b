"""A Spark application that defers is killed with SIGKILL: while it defers, before
anything of that is in Spark's log; and when its sink has a batch and the log has not.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessageState
from pyspark.sql import SparkSession

from twinbus.doors.amqp import management

from .application import Drain
from .harness import Namespace, numbered
from .running import batches_in


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
def test_nothing_is_lost_doubled_or_left(
    spark: SparkSession, strict: Namespace, tmp_path: Path
) -> None:
    strict.bus.create_queue("orders")
    expected = numbered("o", range(1200))
    strict.send("orders", expected)
    drain = Drain(
        tmp_path / "application",
        strict.credential,
        entities="orders",
        settlement="defer",
        maxMessagesPerBatch=800,
    )

    with pytest.MonkeyPatch.context() as monkeypatch:
        waiting = hold_second_deferral(monkeypatch)
        drain.start("deferring").kill_when(lambda: waiting)
    # What is deferred is named nowhere: Spark knows of the empty first batch alone.
    assert batches_in(drain.folder / "checkpoint" / "offsets") == [0]
    orphans = [
        message
        for message in strict.peek("orders", 2000)
        if message.state == ServiceBusMessageState.DEFERRED
    ]
    assert 0 < len(orphans) < 800
    # Locks of the dead end in time.
    strict.bus.advance(120)

    drain.start("written").kill_when((drain.folder / "written").exists)
    drain.finish(spark)

    assert sorted(body for _, body in drain.rows()) == sorted(expected)
    assert strict.peek("orders") == []
