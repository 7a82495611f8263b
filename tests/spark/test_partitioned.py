"""Partitioned entities: all fragments are read, settled and written.

Some tests call the engine as Spark does, which is quicker.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from azure.servicebus import ServiceBusReceiver
from pairs.syphon_world import backlog, diverted
from partitions.stores import owner_of_fragment, store_away
from pyspark.sql import SparkSession
from wire.message import data_message

from twinbus.fragments.hashing import fragment_index
from twinbus.spark.bulk.client import BulkClient
from twinbus.spark.bulk.errors import BulkError
from twinbus.spark.bulk.snapshot import snapshot
from twinbus.spark.bulk.stream import BulkStream
from twinbus.spark.connection import SparkConnection
from twinbus.spark.option_reader import OptionError
from twinbus.spark.positioned_stream import PositionedStream, partitions_of
from twinbus.spark.ranges_read import RangePartition
from twinbus.spark.read_options import read_options
from twinbus.spark.secret import Secret
from twinbus.spark.syphon import run_syphon
from twinbus.testing import Bus

from .harness import Collected, Namespace, numbered, run_available
from .syphon_pair import Pair, Verdict, audit, entity, side_of
from .writing import rows, write

FRAGMENTS = 4


def partitioned_bus() -> Bus:
    """All its queues and topics have four fragments, in three stores."""
    settings = {"fragments": FRAGMENTS, "partition_all": True, "allow_faults": True}
    return Bus(stores=3, settings=settings)


@pytest.fixture
def bus() -> Iterator[Bus]:
    with partitioned_bus() as started:
        started.create_queue("orders")
        yield started


def fill(namespace: Namespace, texts: list[str], queue: str = "orders") -> None:
    """Messages whose bodies are their partition keys."""
    messages = [
        data_message(text, annotations={"x-opt-partition-key": text}) for text in texts
    ]
    sender = BulkClient(
        SparkConnection(secret=Secret(text=namespace.bus.connection_string)), 20_000
    )
    table = pa.table({"entity": [queue] * len(texts), "message": messages})
    assert sender.append(table).applied_count == len(texts)
    sender.close()


def now_of(namespace: Namespace) -> str:
    """Later than all that was sent before, as an option."""
    namespace.bus.advance(1)
    return datetime.fromtimestamp(namespace.bus.clock.now() / 1000, UTC).isoformat()


def places(texts: list[str]) -> Counter[int]:
    """How many messages each fragment has."""
    return Counter(fragment_index(text, FRAGMENTS) for text in texts)


def settle(namespace: Namespace, how: Callable[[Any, Any], None], count: int) -> None:
    """Receive so many messages of the queue, and settle them."""
    with namespace.receiver("orders") as receiver:
        while count > 0:
            for message in receiver.receive_messages(count, max_wait_time=5):
                how(receiver, message)
                count -= 1


# --- batches ------------------------------------------------------------------------


def batch_rows(namespace: Namespace, entities: str, **given: Any) -> list[Any]:
    """What the tasks of a batch query read."""
    options = read_options(namespace.options(entities, **given), is_stream=False)
    ranges, _ = snapshot(options)
    found: list[dict[str, Any]] = []
    for partition in partitions_of(options, ranges, options.states, RangePartition):
        assert isinstance(partition, RangePartition)
        for batch in partition.read():
            found += batch.to_pylist()
    return found


def test_a_batch_has_the_messages_of_all_fragments(
    spark: SparkSession, namespace: Namespace
) -> None:
    namespace.bus.create_queue("billing")
    orders, billing = numbered("o", range(20)), numbered("b", range(9))
    fill(namespace, orders)
    fill(namespace, billing, "billing")
    found = namespace.read(spark, "orders,billing").collect()
    assert sorted(row.body.decode() for row in found) == sorted(orders + billing)
    for row in found:
        assert row.entity == ("orders" if row.body.startswith(b"o") else "billing")
        assert row.partition == fragment_index(row.partition_key, FRAGMENTS)
        assert row.partition == row.sequence_number >> 48


def test_a_batch_of_dead_letters_and_of_a_subscription(namespace: Namespace) -> None:
    namespace.bus.create_topic("news")
    namespace.bus.create_subscription("news", "all")
    namespace.send_to_topic("news", numbered("n", range(6)))
    fill(namespace, numbered("o", range(8)))
    settle(namespace, ServiceBusReceiver.dead_letter_message, 8)
    found = batch_rows(namespace, "orders/$deadletterqueue,news/subscriptions/all")
    assert sorted(row["body"].decode() for row in found) == [
        *numbered("n", range(6)),
        *numbered("o", range(8)),
    ]


def test_bounds_of_a_batch_hold_in_each_fragment(namespace: Namespace) -> None:
    texts = numbered("o", range(12))
    fill(namespace, texts)
    middle = now_of(namespace)
    later = numbered("p", range(12))
    fill(namespace, later)
    found = batch_rows(namespace, "orders")
    numbers = sorted(row["sequence_number"] for row in found)
    assert len(numbers) == 24
    first, last = numbers[5], numbers[17]
    bounded = batch_rows(namespace, "orders", fromSequence=first, toSequence=last)
    assert sorted(row["sequence_number"] for row in bounded) == numbers[5:18]
    for states in ("active", "active,deferred"):
        since = batch_rows(namespace, "orders", startTime=middle, states=states)
        assert sorted(row["body"].decode() for row in since) == sorted(later)


def test_deferred_messages_are_read_in_all_fragments(namespace: Namespace) -> None:
    texts = numbered("o", range(8))
    fill(namespace, texts)
    settle(namespace, ServiceBusReceiver.defer_message, 8)
    found = batch_rows(namespace, "orders", states="deferred")
    assert sorted(row["body"].decode() for row in found) == sorted(texts)


# --- streams ------------------------------------------------------------------------


def test_a_stream_goes_on_from_its_checkpoint_in_every_fragment(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    texts = numbered("o", range(20))
    fill(namespace, texts)
    collected = Collected()
    stream = namespace.stream(
        spark, "orders", settlement="exclusive", maxMessagesPerBatch=8
    )
    run_available(stream, collected, tmp_path / "checkpoint")
    assert sorted(collected.bodies) == sorted(texts)
    assert len(collected.batches) > 1
    assert Counter(row.partition for row in collected.rows) == places(texts)
    assert namespace.peek("orders") == []
    more = numbered("p", range(10))
    fill(namespace, more)
    again = Collected()
    run_available(stream, again, tmp_path / "checkpoint")
    assert sorted(again.bodies) == sorted(more)
    assert namespace.peek("orders") == []


class Driver:
    """One process of a driver: its memory is gone when it is made anew."""

    def __init__(self, namespace: Namespace, **given: Any) -> None:
        given = {"settlement": "exclusive", "timeout": "20s", **given}
        options = read_options(namespace.options("orders", **given), is_stream=True)
        stream = BulkStream(options)
        self.engine = PositionedStream(options, stream, RangePartition)

    def bodies(self, start: dict[str, Any], end: dict[str, Any]) -> list[str]:
        found: list[str] = []
        for partition in self.engine.partitions(start, end):
            assert isinstance(partition, RangePartition)
            for batch in partition.read():
                found += [row["body"].decode() for row in batch.to_pylist()]
        return sorted(found)


def test_a_batch_is_planned_again_with_the_same_messages(namespace: Namespace) -> None:
    """The driver ended after it had planned: the next one reads the same batch."""
    fill(namespace, numbered("o", range(20)))
    first = Driver(namespace, readerId="r")
    start = first.engine.initial()
    end = first.engine.advance(start, 8)
    expected = first.bodies(start, end)
    first.engine.close()
    second = Driver(namespace)
    assert second.bodies(start, end) == expected
    last = second.engine.advance(end, None)
    assert len(namespace.peek("orders")) == 20 - len(expected)
    assert sorted(expected + second.bodies(end, last)) == sorted(
        numbered("o", range(20))
    )
    assert second.engine.advance(last, None) == last
    assert namespace.peek("orders") == []
    second.engine.close()


@pytest.mark.parametrize("place", ["latest", "time"])
def test_a_stream_may_begin_later(namespace: Namespace, place: str) -> None:
    fill(namespace, numbered("o", range(10)))
    later = {"startingPosition": "latest"}
    if place == "time":
        later = {"startTime": now_of(namespace)}
    driver = Driver(namespace, settlement="browse", **later)
    start = driver.engine.initial()
    fill(namespace, numbered("p", range(10)))
    end = driver.engine.advance(start, None)
    assert driver.bodies(start, end) == numbered("p", range(10))
    driver.engine.close()


def test_a_stream_cannot_begin_at_one_number(namespace: Namespace) -> None:
    driver = Driver(namespace, fromSequence=5)
    with pytest.raises(OptionError, match="'orders' is partitioned"):
        driver.engine.initial()
    driver.engine.close()


def test_a_fragment_that_is_away_is_told(bus: Bus, namespace: Namespace) -> None:
    texts = numbered("o", range(12))
    fill(namespace, texts)
    driver = Driver(namespace, timeout="1s", leaseDuration="60s")
    start = driver.engine.initial()
    end = driver.engine.advance(start, None)
    with store_away(bus, owner_of_fragment(bus, "orders", 1)):
        with pytest.raises(BulkError, match="Fragment 1 of 'orders'") as caught:
            driver.bodies(start, end)
        assert caught.value.is_retryable
        with pytest.raises(BulkError, match="Fragment 1 of 'orders'"):
            driver.engine.advance(end, None)
    assert driver.bodies(start, end) == sorted(texts)
    assert driver.engine.advance(end, None) == end
    assert namespace.peek("orders") == []
    driver.engine.close()


# --- writing, and a backlog ---------------------------------------------------------


def test_rows_are_written_to_the_fragments_of_their_keys(
    spark: SparkSession, namespace: Namespace
) -> None:
    texts = numbered("o", range(20))
    write(
        namespace,
        rows(
            spark,
            [(text.encode(), text) for text in texts],
            "body binary, partition_key string",
        ),
        entity="orders",
    )
    found = namespace.peek("orders")
    assert sorted(map(str, found)) == sorted(texts)
    indexes = Counter((one.sequence_number or 0) >> 48 for one in found)
    assert indexes == places(texts)


def test_a_partitioned_backlog_comes_back_once_and_in_order(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    """From partitioned backlog queues to partitioned entities; some were parked."""
    with partitioned_bus() as secondary:
        pair = Pair(side_of(bus, tmp_path / "a"), side_of(secondary, tmp_path / "b"))
        for index in range(2):
            secondary.create_queue(backlog(index))
            bus.create_queue(entity(index), requires_session=True)
        bus.update_queue(entity(1), status="SendDisabled")
        messages = [(entity(at % 2), f"s{at // 2 % 5}", f"{at:08}") for at in range(80)]
        for at, (path, session, body) in enumerate(messages):
            key = {"x-opt-partition-key": session}
            payload = diverted(path, body, session_id=session, annotations=key)
            pair.divert(at % 2, [payload])
        first = run_syphon(spark, pair.options(max_messages=30))
        assert (first.restored, first.parked) == (40, {entity(1): 40})
        assert pair.backlog_counts() == (0, 40)
        bus.update_queue(entity(1), status="Active")
        last = run_syphon(spark, pair.options())
        assert (last.restored, last.parked) == (40, {})
        assert pair.backlog_counts() == (0, 0)
        assert audit(pair.primary, messages) == Verdict(80, 0, 0, 0)
