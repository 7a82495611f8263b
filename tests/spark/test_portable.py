"""S1: browsing a namespace that is not twinbus, in batches and as a stream."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from twinbus.spark.bulk.stream import BulkStream
from twinbus.spark.engines import batch_partitions
from twinbus.spark.offsets import OffsetError
from twinbus.spark.portable.browsing import present_ranges
from twinbus.spark.portable.peeked_ranges import PeekPartition
from twinbus.spark.positioned_stream import PositionedStream, partitions_of
from twinbus.spark.ranges_read import RangePartition
from twinbus.spark.read_options import read_options
from twinbus.spark.stream_reader import ReadablePartition

from .engine_world import EngineRun
from .harness import Collected, Namespace, numbered, run_available


def test_a_batch_reads_what_is_there_and_touches_nothing(
    spark: SparkSession, strict: Namespace
) -> None:
    strict.bus.create_queue("orders")
    strict.bus.create_queue("visits", requires_session=True)
    strict.send("orders", numbered("o", range(600)))
    strict.send("visits", [ServiceBusMessage("v", session_id="s")])
    frame = strict.read(spark, "orders,visits", columns="entity,body,session_id")
    for _ in range(2):
        rows = frame.collect()
        assert len(rows) == 601
        assert {(row.body.decode(), row.session_id) for row in rows} == {
            *((body, None) for body in numbered("o", range(600))),
            ("v", "s"),
        }
    assert strict.receive("orders", 1) == ["o0"]


def test_ranges_are_by_number_and_by_time(strict: Namespace) -> None:
    strict.bus.create_queue("orders")
    strict.send("orders", numbered("early", range(5)))
    strict.bus.advance(60)
    between = strict.bus.now() - timedelta(seconds=30)
    strict.send("orders", numbered("late", range(5)))
    assert _read(strict, fromSequence=4, toSequence=6) == ["early3", "early4", "late0"]
    assert _read(strict, startTime=between.isoformat()) == numbered("late", range(5))
    assert _read(strict, endTime=between.isoformat()) == numbered("early", range(5))
    assert _read(strict, fromSequence=11) == []


@pytest.mark.parametrize("kind", ["namespace", "strict"])
def test_times_bound_messages_of_every_state(
    kind: str, request: pytest.FixtureRequest
) -> None:
    bus: Namespace = request.getfixturevalue(kind)
    bus.bus.create_queue("orders")
    due = bus.bus.now() + timedelta(hours=1)
    for part in ("early", "late"):
        scheduled = ServiceBusMessage(f"{part}-s", scheduled_enqueue_time_utc=due)
        bus.send("orders", [f"{part}-d", scheduled, f"{part}-a"])
        with bus.receiver("orders") as receiver:
            for message in receiver.receive_messages(4, max_wait_time=5):
                if str(message) == f"{part}-d":
                    receiver.defer_message(message)
        bus.bus.advance(60)
    between = (bus.bus.now() - timedelta(seconds=90)).isoformat()
    states = "active,deferred,scheduled"
    early, late = ([f"{part}-{state}" for state in "dsa"] for part in ("early", "late"))
    assert _read(bus, states=states, endTime=between) == early
    assert _read(bus, states=states, startTime=between) == late
    assert _read(bus, states="deferred", startTime=between) == ["late-d"]
    assert _read(bus, states="scheduled", startTime="1960-01-01") == [
        "early-s",
        "late-s",
    ]
    assert _read(bus, states=states, endTime="1960-01-01") == []
    assert _read(bus, startTime="1960-01-01", endTime=between) == ["early-a"]


def _read(namespace: Namespace, **options: object) -> list[str]:
    given = read_options(namespace.options("orders", **options), is_stream=False)
    return [row["body"].decode() for row in _rows(batch_partitions(given))]


def _rows(partitions: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for partition in partitions:
        assert isinstance(partition, ReadablePartition)
        for batch in partition.read():
            found += batch.to_pylist()
    return found


def test_columns_are_those_of_a_twinbus(namespace: Namespace) -> None:
    """The same messages, read by bulk requests and by peeking."""
    namespace.bus.create_queue("orders")
    namespace.send(
        "orders",
        [
            ServiceBusMessage(
                "full",
                message_id="m1",
                session_id="s",
                partition_key="s",
                correlation_id="c",
                subject="about",
                to="there",
                reply_to="here",
                reply_to_session_id="r",
                content_type="text/plain",
                time_to_live=timedelta(minutes=5),
                application_properties={"n": 7, "t": "text", "b": True, "f": 1.5},
            ),
            ServiceBusMessage(b"bare"),
            ServiceBusMessage("dead"),
            ServiceBusMessage("deferred"),
        ],
    )
    with namespace.receiver("orders") as receiver:
        received = receiver.receive_messages(4, max_wait_time=5)
        receiver.abandon_message(received[0])
        receiver.dead_letter_message(received[2], "Why", "Because")
        receiver.defer_message(received[3])
    options = read_options(
        namespace.options(
            "orders,orders/$DeadLetterQueue", states="active,deferred", includeRaw=True
        ),
        is_stream=False,
    )
    bulk = _rows(batch_partitions(options))
    peeked = _rows(
        partitions_of(options, present_ranges(options), options.states, PeekPartition)
    )
    assert len(bulk) == 4
    # A bus knows the size of what was sent; others tell what they deliver.
    for row in (*bulk, *peeked):
        assert row.pop("size_bytes") > 0
        row["application_properties"].sort()
        row.pop("raw")
    assert _by_number(peeked) == _by_number(bulk)


def _by_number(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda r: (r["sequence_number"], str(r["subqueue"])))


def test_a_stream_browses_in_batches_and_goes_on_where_it_was(
    spark: SparkSession, strict: Namespace, tmp_path: Path
) -> None:
    strict.bus.create_queue("orders")
    strict.send("orders", numbered("o", range(50)))
    collected = Collected()
    stream = strict.stream(spark, "orders", maxMessagesPerBatch=20)
    run_available(stream, collected, tmp_path / "checkpoint")
    assert [len(rows) for _, rows in collected.batches] == [20, 20, 10]
    strict.receive("orders", 5)
    strict.send("orders", numbered("late", range(5)))
    run_available(stream, collected, tmp_path / "checkpoint")
    assert collected.bodies == numbered("o", range(50)) + numbered("late", range(5))
    assert len(strict.peek("orders")) == 50


def test_the_case_of_a_name_does_not_matter(strict: Namespace) -> None:
    strict.bus.create_queue("orders")
    strict.send("orders", numbered("o", range(3)))
    before = EngineRun(strict, "orders", settlement="browse")
    start = before.engine.initial()
    end = before.engine.advance(start, 10)
    before.close()
    strict.send("orders", ["late"])
    after = EngineRun(strict, "ORDERS", settlement="browse")
    after.engine.end_with_what_is_there()
    assert after.read_all(end, 10) == ["late"]
    after.close()


def test_a_stream_can_begin_with_what_comes(
    spark: SparkSession, strict: Namespace, tmp_path: Path
) -> None:
    strict.bus.create_queue("orders")
    strict.send("orders", numbered("o", range(5)))
    collected = Collected()
    stream = strict.stream(spark, "orders", startingPosition="latest")
    run_available(stream, collected, tmp_path / "checkpoint")
    assert collected.rows == []


def test_a_checkpoint_of_the_other_kind_of_namespace_is_told(
    namespace: Namespace,
) -> None:
    """As of a bus that was strict, or is now."""
    namespace.bus.create_queue("orders")
    namespace.send("orders", ["o"])
    browsing = EngineRun(namespace, "orders", settlement="browse")
    options = read_options(namespace.options("orders"), is_stream=True)
    bulk = BulkStream(options)
    by_bulk = PositionedStream(options, bulk, RangePartition)
    for one, other, text in (
        (browsing.engine, by_bulk, "of a stream over AMQP"),
        (by_bulk, browsing.engine, "of a stream over a twinbus"),
    ):
        start = one.initial()
        end = one.advance(start, 1)
        with pytest.raises(OffsetError, match=text):
            other.advance(start, 1)
        with pytest.raises(OffsetError, match=text):
            other.partitions(start, end)
    browsing.close()
    bulk.close()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"entities": "nowhere"}, "'nowhere' does not exist"),
        ({"entityPattern": "o*"}, "'entityPattern' needs a twinbus"),
    ],
)
def test_what_cannot_be_read_is_told(
    spark: SparkSession, strict: Namespace, options: dict[str, str], text: str
) -> None:
    given = {"credential": strict.credential, **options}
    frame = spark.read.format("servicebus").options(**given).load()
    with pytest.raises(PySparkException, match=text):
        frame.collect()
