"""Running queries, and the syphon, across the loss of brokers: `kill -9` of one that
owns a part of what is read and written."""

import asyncio
import os
import random
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import cast
from zlib import crc32

import pytest
from brokers.processes import Brokers
from brokers.processes import until as eventually
from pairs.syphon_world import backlog, diverted
from pyspark.sql import DataFrame, SparkSession

from twinbus.config.config import ROOT_KEY_NAME
from twinbus.spark.syphon import run_syphon
from twinbus.testing import Bus

from .harness import Collected, Namespace, numbered
from .running import running, until
from .syphon_pair import (
    ENTITIES,
    QUEUES,
    Pair,
    Verdict,
    audit,
    bounds,
    entity,
    load,
    side_of,
)
from .test_partitioned import fill

# Each one takes the time in which Spark waits for a bus that is busy: the nightly run
# has more.
KILLS = int(os.environ.get("TWINBUS_TAKEOVER_KILLS", "1"))
NAMES = ("1", "2", "3")


class BrokeredBus:
    """Three brokers as one bus, which tests of Spark can use."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._brokers = Brokers(folder)

    @contextmanager
    def started(self, *queues: str, **properties: object) -> Iterator[None]:
        """With these queues, whose fragments are at all brokers."""
        with self._brokers:
            asyncio.run(self._brokers.start_three(*queues, **properties))
            yield

    @property
    def port(self) -> int:
        return self._brokers.port

    @property
    def key(self) -> str:
        return self._brokers.root_key

    @property
    def connection_string(self) -> str:
        return (
            f"Endpoint=sb://127.0.0.1:{self.port};SharedAccessKeyName={ROOT_KEY_NAME};"
            f"SharedAccessKey={self.key};UseDevelopmentEmulator=true"
        )

    def kill_one(self) -> None:
        """Any of them: all have fragments of the queues."""

        async def kill() -> None:
            await eventually(lambda: self._brokers.owns_all(*NAMES))
            victim = (await self._brokers.alive())[random.choice(NAMES)]
            os.kill(victim.process.pid, signal.SIGKILL)

        asyncio.run(kill())

    def is_whole(self) -> None:
        """Wait until all brokers run, and serve all stores."""
        asyncio.run(eventually(lambda: self._brokers.owns_all(*NAMES)))


@contextmanager
def brokered(folder: Path, *queues: str, **properties: object) -> Iterator[BrokeredBus]:
    bus = BrokeredBus(folder)
    with bus.started(*queues, **properties):
        yield bus


class Slowly(Collected):
    """A sink that lets the test kill a broker while a batch is under way."""

    def __init__(self, bus: BrokeredBus, kills: int) -> None:
        super().__init__()
        self._bus = bus
        self._kills = kills

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        if batch_id > 0 and self._kills > 0:
            self._kills -= 1
            # It is planned, and not read yet.
            self._bus.kill_one()
        super().__call__(batch, batch_id)


@pytest.mark.parametrize("settlement", ["exclusive", "defer"])
@pytest.mark.timeout(900)
def test_a_running_query_loses_and_doubles_nothing(
    spark: SparkSession, tmp_path: Path, settlement: str
) -> None:
    with brokered(tmp_path / "bus", "orders") as bus:
        with Namespace(cast(Bus, bus), tmp_path) as namespace:
            texts = numbered("o", range(400 * KILLS))
            fill(namespace, texts)
            stream = namespace.stream(
                spark, "orders", settlement=settlement, maxMessagesPerBatch=100
            )
            collected = Slowly(bus, KILLS)
            with running(stream, collected, tmp_path / "checkpoint") as query:
                until(lambda: len(collected.rows) >= len(texts), query)
                bus.is_whole()
                more = numbered("p", range(50))
                fill(namespace, more)
                expected = texts + more
                until(lambda: len(collected.rows) >= len(expected), query)
                # What is processed is settled with the next plan.
                until(lambda: namespace.peek("orders") == [], query)
    assert sorted(collected.bodies) == sorted(expected)


def divert_sessions(pair: Pair, messages: list[tuple[str, str, str]]) -> None:
    """As paired senders do it where backlog queues are partitioned: a session keeps to
    one fragment of one queue."""
    by_queue: dict[int, list[bytes]] = {}
    for path, session, body in messages:
        payload = diverted(
            *(path, body),
            session_id=session,
            annotations={"x-opt-partition-key": session},
        )
        index = crc32(f"{path} {session}".encode()) % QUEUES
        by_queue.setdefault(index, []).append(payload)
    for index, payloads in by_queue.items():
        pair.divert(index, payloads)


@pytest.mark.timeout(900)
def test_a_syphon_loses_and_doubles_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Brokers of both sides are lost while it runs."""
    entities, queues = map(entity, range(ENTITIES)), map(backlog, range(QUEUES))
    with (
        brokered(tmp_path / "primary", *entities, requires_session=True) as primary,
        brokered(tmp_path / "secondary", *queues) as secondary,
    ):
        pair = Pair(
            side_of(primary, tmp_path / "a"), side_of(secondary, tmp_path / "b")
        )
        messages = load(600 * KILLS)
        divert_sessions(pair, messages)

        def restored_count() -> int:
            found = bounds(pair.primary, "entity-*")
            return sum(part.active_count for one in found for part in one.fragments)

        with ThreadPoolExecutor(1) as pool:
            options = pair.options(
                checkpoint=str(tmp_path / "checkpoint"),
                max_messages=60,
                timeout_ms=120_000,
            )
            ended = pool.submit(run_syphon, spark, options)
            for at in range(KILLS):
                until(lambda n=at * 600 + 100: restored_count() >= n or ended.done())
                assert not ended.done()
                # At once: to count again while a broker is away takes as long as the
                # rest of the work, on a fast machine.
                primary.kill_one()
                secondary.kill_one()
            summary = ended.result()
        primary.is_whole()
        secondary.is_whole()
        assert audit(pair.primary, messages) == Verdict(len(messages), 0, 0, 0)
        assert pair.backlog_counts() == (0, 0)
    assert summary.left == 0 and summary.dead_lettered == {}
