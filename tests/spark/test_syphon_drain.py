"""S2: single batches of the Spark syphon, and interruptions between them.

They do not come from a stream: a batch is the content of the backlog queues, under
leases that the test holds. So it can be interrupted, and read again.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pairs.syphon_world import backlog, diverted, encoded
from pyspark.sql import DataFrame, SparkSession

from twinbus.spark.bulk.client import BulkSettlement
from twinbus.spark.syphon.backlog import Backlog, BacklogSettlement, Look
from twinbus.spark.syphon.drain import Drain
from twinbus.spark.syphon.errors import SyphonError
from twinbus.spark.syphon.preparing import SOURCE_COLUMNS
from twinbus.testing import Bus
from twinbus.testing.clock import ManualClock

from .syphon_pair import Pair, bodies, content, side_of

QUEUES = [backlog(0), backlog(1)]


@pytest.fixture
def buses() -> Iterator[tuple[Bus, Bus]]:
    with Bus() as primary, Bus() as secondary:
        for path in QUEUES:
            secondary.create_queue(path)
        yield primary, secondary


@pytest.fixture
def pair(buses: tuple[Bus, Bus], tmp_path: Path) -> Pair:
    primary, secondary = buses
    return Pair(side_of(primary, tmp_path / "a"), side_of(secondary, tmp_path / "b"))


class Dying(Backlog):
    """Is killed after the first queue is settled."""

    def settle(self, look: Look, settlements: Any) -> None:
        first: dict[str, BacklogSettlement] = dict([next(iter(settlements.items()))])
        super().settle(look, first)
        raise SyphonError("killed")


class Run:
    """A drain, and the batches that a stream would hand to it."""

    def __init__(
        self, spark: SparkSession, pair: Pair, made: Callable[..., Backlog]
    ) -> None:
        self._spark = spark
        self._pair = pair
        self.clock = ManualClock()
        self._options = pair.options(missing_entity_grace_ms=60_000)
        self._backlog = made(self._options, "a reader")
        self.drain = Drain(spark, self._options, self._backlog, self.clock)

    def batch(self) -> None:
        """All that is in the backlog queues."""
        with self._backlog.held(QUEUES) as is_held:
            assert is_held
            self.drain.batch(self._rows(), 0)

    def return_parked(self) -> None:
        with self._backlog.held(QUEUES) as is_held:
            assert is_held
            self.drain.return_parked()

    def _rows(self) -> DataFrame:
        return (
            self._spark.read.format("servicebus")
            .option("credential", self._pair.secondary.credential)
            .option("entityPattern", self._options.pattern)
            .option("columns", ",".join(SOURCE_COLUMNS))
            .load()
        )

    def close(self) -> None:
        self.drain.close()
        self._backlog.close()


@contextmanager
def running(
    spark: SparkSession, pair: Pair, made: Callable[..., Backlog] = Backlog
) -> Iterator[Run]:
    run = Run(spark, pair, made)
    try:
        yield run
    finally:
        run.close()


def test_a_batch_that_was_settled_in_part_keeps_its_order(
    spark: SparkSession, buses: tuple[Bus, Bus], pair: Pair
) -> None:
    """The second message of a session is deferred already, the first is not, and the
    entity takes messages again."""
    primary, _ = buses
    primary.create_queue("orders", requires_session=True, status="SendDisabled")
    pair.divert(0, [diverted("orders", "1", session_id="s")])
    # Queues are settled in the order in which something is found in them.
    pair.divert(1, [encoded({}, b"no path"), diverted("orders", "2", session_id="s")])
    with (
        running(spark, pair, Dying) as first,
        pytest.raises(SyphonError, match="killed"),
    ):
        first.batch()
    assert content(pair.secondary, backlog(0), ("deferred",)) == {backlog(0): []}
    assert bodies(pair.secondary, backlog(1), ("deferred",)) == ["2"]
    primary.update_queue("orders", status="Active")
    with running(spark, pair) as second:
        second.batch()
    assert bodies(pair.primary, "orders") == ["1", "2"]
    assert pair.backlog_counts() == (1, 0)


def test_an_entity_that_goes_again_has_its_grace_again(
    spark: SparkSession, buses: tuple[Bus, Bus], pair: Pair
) -> None:
    primary, _ = buses
    with running(spark, pair) as run:
        pair.divert(0, [diverted("orders", "given up")])
        run.batch()
        run.clock.advance(60_000)
        run.return_parked()
        assert run.drain.tally.dead_lettered == {"MessagingEntityNotFound": 1}
        primary.create_queue("orders")
        pair.divert(0, [diverted("orders", "restored")])
        run.batch()
        assert bodies(pair.primary, "orders") == ["restored"]
        primary.delete_queue("orders")
        pair.divert(0, [diverted("orders", "waits")])
        run.batch()
        assert "waits" in bodies(pair.secondary, backlog(0), ("deferred",))
        assert run.drain.tally.dead_lettered == {"MessagingEntityNotFound": 1}


def test_what_others_did_between_two_leases_is_found(
    spark: SparkSession, buses: tuple[Bus, Bus], pair: Pair
) -> None:
    """As many messages are deferred as before, and others."""
    primary, _ = buses
    for path in ("orders", "billing"):
        primary.create_queue(path, status="SendDisabled")
    pair.divert(0, [diverted("orders")])
    with running(spark, pair) as run:
        run.batch()
        assert run.drain.parked() == {"orders": 1}
        pair.divert(0, [diverted("billing")])
        swap_deferred(pair)
        run.return_parked()
        assert run.drain.parked() == {"billing": 1}


def swap_deferred(pair: Pair) -> None:
    """Another reader takes back what is deferred, and defers what is not."""
    path = backlog(0)
    numbers = {
        state: [
            found.row["sequence_number"]
            for found in content(pair.secondary, path, (state,))[path]
        ]
        for state in ("active", "deferred")
    }
    client = pair.secondary.client()
    try:
        [(_, epoch)] = client.take("another", 10_000, [path]).items()
        verdict = BulkSettlement(
            path=path,
            epoch=epoch,
            defer=numbers["active"],
            complete=numbers["deferred"],
        )
        assert client.settle("another", [verdict]) == 2
        client.release("another", {path: epoch})
    finally:
        client.close()
