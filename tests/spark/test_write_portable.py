"""S1: rows to namespaces that are not twinbus, by the vendor's SDK.

A strict bus has no extensions of Service Bus.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageState
from pyspark.sql import SparkSession, functions
from pyspark.sql.types import StringType, StructField, StructType

from twinbus.amqp.messaging import Data, Message, encode_message
from twinbus.spark.patience import RetryPatience
from twinbus.spark.portable import sending
from twinbus.spark.row_messages import EncodedRows
from twinbus.spark.row_sender import SentRows
from twinbus.spark.write_options import write_options
from twinbus.testing import Bus

from .harness import Namespace, numbered
from .writing import refusal, rows, write


@pytest.fixture
def bus() -> Iterator[Bus]:
    with Bus(settings={"strict": True}) as started:
        yield started


def test_rows_become_messages(spark: SparkSession, namespace: Namespace) -> None:
    namespace.bus.create_queue("orders", requires_session=True)
    due = namespace.bus.now().replace(microsecond=0) + timedelta(minutes=5)
    schema = (
        "body binary, message_id string, session_id string, subject string, "
        "time_to_live_ms bigint, scheduled_time timestamp, "
        "application_properties map<string,string>"
    )
    frame = rows(
        spark,
        [
            (b"\x01", "m-1", "s-1", "x", 60_000, None, {"k": "v"}),
            (None, "m-2", "s-2", None, None, due, None),
        ],
        schema,
    )
    write(namespace, frame, entity="orders")
    one = {m.message_id: m for m in _peek(namespace, "orders", "s-1")}["m-1"]
    assert list(one.body) == [b"\x01"] and one.subject == "x"
    assert one.time_to_live == timedelta(minutes=1)
    assert one.application_properties == {b"k": b"v"}
    [two] = _peek(namespace, "orders", "s-2")
    assert two.state is ServiceBusMessageState.SCHEDULED
    assert two.scheduled_enqueue_time_utc == due


def _peek(namespace: Namespace, entity: str, session: str) -> list[ServiceBusMessage]:
    return [m for m in namespace.peek(entity, session_id=session)]


def test_rows_keep_their_order_over_batches_and_entities(
    spark: SparkSession, namespace: Namespace
) -> None:
    namespace.bus.create_queue("orders")
    namespace.bus.create_topic("news")
    namespace.bus.create_subscription("news", "all")
    bodies = numbered("", range(600))
    frame = rows(
        spark,
        [("news" if int(body) % 2 else "orders", body) for body in bodies],
        "entity string, body string",
    )
    write(namespace, frame, maxBytesPerRequest="2k")
    assert namespace.bodies("orders") == bodies[::2]
    assert namespace.bodies("news/subscriptions/all") == bodies[1::2]


def test_whole_messages_keep_their_types(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("copies")
    with Bus() as other:
        other.create_queue("orders")
        (tmp_path / "other").mkdir()
        with Namespace(other, tmp_path / "other") as source:
            message = ServiceBusMessage(
                b"\xff",
                message_id="m",
                application_properties={
                    "int": 7,
                    "text": "t",
                    "time": datetime(2020, 1, 1, tzinfo=UTC),
                },
            )
            source.send("orders", [message])
            [original] = source.peek("orders")
            read = source.read(spark, "orders", includeRaw=True)
            write(namespace, read, entity="copies")
    [copy] = namespace.peek("copies")
    assert copy.application_properties == original.application_properties
    assert (list(copy.body), copy.message_id) == ([b"\xff"], "m")


def test_ids_need_a_twinbus(spark: SparkSession, namespace: Namespace) -> None:
    namespace.bus.create_queue("orders")
    frame = rows(spark, [("a", "1")], "body string, message_id string")
    text = refusal(namespace, frame, entity="orders", idColumn="message_id")
    assert "'idColumn' needs a twinbus namespace that is not strict" in text
    assert "duplicate detection" in text


@pytest.mark.parametrize(
    ("entity", "text"),
    [
        ("nowhere", "A row for 'nowhere' was not sent"),
        ("closed", "A row for 'closed' was not sent"),
        ("sessions", "requires sessions: set the message's session id"),
    ],
)
def test_an_entity_that_takes_no_rows(
    spark: SparkSession, namespace: Namespace, entity: str, text: str
) -> None:
    namespace.bus.create_queue("closed", status="SendDisabled")
    namespace.bus.create_queue("sessions", requires_session=True)
    frame = rows(spark, [("a",)], "body string")
    assert text in refusal(namespace, frame, entity=entity)


def test_a_row_that_is_too_large(spark: SparkSession, namespace: Namespace) -> None:
    namespace.bus.create_queue("orders")
    frame = rows(spark, [("a",), ("b" * 300_000,)], "body string")
    frame = frame.withColumn("message_id", functions.substring("body", 1, 3))
    text = refusal(namespace, frame, entity="orders")
    assert "A row for 'orders' with the message id 'bbb' was not sent" in text
    assert "The message of 3000" in text and "bytes of a batch" in text
    # Each attempt of the task had sent the one before it.
    assert set(namespace.bodies("orders")) == {"a"}


def test_a_wrong_key_is_told_without_the_key(
    spark: SparkSession, namespace: Namespace
) -> None:
    namespace.bus.create_queue("orders")
    wrong = namespace.bus.connection_string.replace(namespace.bus.key, "c2VjcmV0LWtleQ")
    namespace.secret_file.write_text(wrong)
    text = refusal(namespace, rows(spark, [("a",)], "body string"), entity="orders")
    assert "c2VjcmV0LWtleQ" not in text
    assert "was not sent" in text or "Check the key" in text


def test_a_busy_namespace_is_given_ten_seconds(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its disk is full for a while. Without Spark: what a task does."""
    namespace.bus.create_queue("orders")
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        namespace.bus.advance(seconds)

    monkeypatch.setattr(
        sending,
        "RetryPatience",
        lambda seconds: RetryPatience(seconds, clock=namespace.bus.clock, sleep=sleep),
    )
    schema = StructType([StructField("body", StringType())])
    options = {"credential": namespace.credential, "entity": "orders"}
    sender = sending.SdkSender(write_options(options, schema, overwrite=False))
    owner = namespace.bus.owner
    owner.refuses_until = namespace.bus.clock.now() + 500
    try:
        message = encode_message(Message(body=Data((b"a",))))
        sender.send(EncodedRows(entities=["orders"], messages=[message]))
        assert sender.finish() == SentRows(sent_count=1)
    finally:
        sender.close()
    assert waits == [10.0]
    assert namespace.bodies("orders") == ["a"]


def test_a_stream_is_written(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    namespace.bus.create_queue("ticks")
    query = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 30)
        .load()
        .select(functions.col("value").cast("string").alias("body"))
        .writeStream.format("servicebus")
        .option("credential", namespace.credential)
        .option("entity", "ticks")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(100)
    assert not query.isActive and query.exception() is None
    assert sorted(map(int, namespace.bodies("ticks"))) == list(range(30))
