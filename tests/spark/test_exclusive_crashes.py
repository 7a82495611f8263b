"""A driver that dies at any request: every message is read, once.

Without Spark, so that every moment can be tried: `MicroBatches` calls the source as
Spark's micro-batch execution does, with its two logs and an idempotent sink, and dies
just before a request is sent, or just after it was answered.
"""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from twinbus.spark.bulk.channel import Answer, Channel
from twinbus.spark.bulk.client import BulkClient
from twinbus.spark.connection import SparkConnection
from twinbus.spark.secret import Secret
from twinbus.spark.source import schema_of, stream_reader
from twinbus.spark.stream_reader import ServiceBusStreamReader

from .harness import Namespace


class Killed(BaseException):
    """Nobody catches this."""


class Fate:
    """Kills whoever makes a certain request; the thread of leases is left out."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.kill_at: int | None = None
        self.is_answered = False
        original = Channel.request
        mine = threading.current_thread()
        fate = self

        def request(channel: Channel, *what: Any, **how: Any) -> Answer:
            if threading.current_thread() is not mine:
                return original(channel, *what, **how)
            is_last = fate.count == fate.kill_at
            fate.count += 1
            if is_last and not fate.is_answered:
                raise Killed
            answer = original(channel, *what, **how)
            if is_last:
                raise Killed
            return answer

        monkeypatch.setattr(Channel, "request", request)

    def spare(self) -> None:
        self.count, self.kill_at = 0, None

    def kill(self, at: int, is_answered: bool) -> None:
        self.count, self.kill_at, self.is_answered = 0, at, is_answered


class MicroBatches:
    """What outlives a driver: the two logs, and the sink."""

    def __init__(self) -> None:
        self._ends: list[dict[str, Any]] = []
        self._committed = -1
        self._first: dict[str, Any] = {}
        self.sink: dict[int, list[str]] = {}

    @property
    def rows(self) -> list[str]:
        return [row for rows in self.sink.values() for row in rows]

    def run(self, source: ServiceBusStreamReader, limit: int) -> None:
        """`availableNow`, from where the logs are."""
        source.prepareForTriggerAvailableNow()
        if not self._ends:
            self._first = source.initialOffset()
        elif self._committed < len(self._ends) - 1:
            self._process(source, len(self._ends) - 1)
        while True:
            start = self._start_of(len(self._ends))
            end = source.latestOffset(start, ReadMaxRows(limit))
            if end == start:
                return
            self._ends.append(end)
            if len(self._ends) > 1:
                source.commit(start)
            self._process(source, len(self._ends) - 1)

    def _start_of(self, batch: int) -> dict[str, Any]:
        return self._ends[batch - 1] if batch else self._first

    def _process(self, source: ServiceBusStreamReader, batch: int) -> None:
        parts = source.partitions(self._start_of(batch), self._ends[batch])
        # Overwritten when the batch comes again.
        self.sink[batch] = [
            body.decode()
            for part in parts
            for rows in source.read(part)
            for body in rows.column("body").to_pylist()
        ]
        self._committed = batch


@pytest.fixture
def fate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fate]:
    yield Fate(monkeypatch)


@pytest.fixture
def client(namespace: Namespace) -> Iterator[BulkClient]:
    secret = Secret(text=namespace.bus.connection_string)
    made = BulkClient(SparkConnection(secret=secret), 60_000)
    yield made
    made.close()


def filled(namespace: Namespace, queues: list[str]) -> list[str]:
    """Five messages in each of some new queues."""
    for queue in queues:
        namespace.bus.create_queue(queue)
    rows = [(queue, f"{queue}-{n}") for queue in queues for n in range(5)]
    namespace.append(rows)
    return [body for _, body in rows]


def run(batches: MicroBatches, options: dict[str, str]) -> None:
    """A driver's life. Its death ends the thread that renews its leases."""
    source = stream_reader(options, schema_of(options))
    try:
        batches.run(source, 4)
    finally:
        source.stop()


@pytest.mark.parametrize("is_answered", [False, True])
def test_a_driver_may_die_at_any_request(
    namespace: Namespace, client: BulkClient, fate: Fate, is_answered: bool
) -> None:
    at, was_killed = 0, True
    while was_killed:
        queues = [f"a{at}", f"b{at}"]
        options = namespace.options(",".join(queues), settlement="exclusive")
        expected = filled(namespace, queues)
        batches = MicroBatches()
        fate.kill(at, is_answered)
        try:
            run(batches, options)
            was_killed = False
        except Killed:
            fate.spare()
            # The lease of a query that had no time to write its log.
            namespace.bus.advance(90)
            run(batches, options)
        fate.spare()
        assert sorted(batches.rows) == sorted(expected), f"killed at request {at}"
        found, _ = client.runtime(queues)
        left = [part.active_count for entity in found for part in entity.fragments]
        assert left == [0, 0], f"killed at request {at}"
        at += 1
    assert at > 15, "a run of three batches makes more requests than that"
