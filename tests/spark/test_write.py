"""S1: DataFrames are sent as messages to queues and topics."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusMessageState,
)
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageBodyType
from pyspark.sql import SparkSession, functions

from .harness import Namespace, numbered
from .writing import rows, write, writer


def test_every_column_arrives_as_what_it_says(
    spark: SparkSession, namespace: Namespace
) -> None:
    namespace.bus.create_queue("orders")
    frame = rows(
        spark,
        [
            (
                *(b"hello", "m-1", "s-1", "s-1", "c-1", "new", "there", "back", "s-2"),
                *("text/plain", 90_000, {"colour": "red", "nothing": None}),
            )
        ],
        "body binary, message_id string, session_id string, partition_key string, "
        "correlation_id string, subject string, to string, reply_to string, "
        "reply_to_session_id string, content_type string, time_to_live_ms bigint, "
        "application_properties map<string,string>",
    )
    write(namespace, frame, entity="orders")
    [message] = namespace.peek("orders")
    assert str(message) == "hello"
    assert (message.message_id, message.session_id) == ("m-1", "s-1")
    assert (message.partition_key, message.correlation_id) == ("s-1", "c-1")
    assert (message.subject, message.to) == ("new", "there")
    assert (message.reply_to, message.reply_to_session_id) == ("back", "s-2")
    assert message.content_type == "text/plain"
    assert message.time_to_live == timedelta(seconds=90)
    assert message.application_properties == {b"colour": b"red", b"nothing": None}


def test_each_row_goes_to_the_entity_that_its_column_says(
    spark: SparkSession, namespace: Namespace
) -> None:
    namespace.bus.create_queue("orders")
    namespace.bus.create_topic("news")
    namespace.bus.create_subscription("news", "all")
    frame = rows(
        spark,
        [("orders", "a"), ("news", "b"), ("/orders/", "c")],
        "entity string, body string",
    )
    write(namespace, frame)
    assert namespace.bodies("orders") == ["a", "c"]
    assert namespace.bodies("news/subscriptions/all") == ["b"]
    write(namespace, frame.withColumnRenamed("entity", "target"), entityColumn="Target")
    assert namespace.bodies("orders") == ["a", "c", "a", "c"]


def test_save_takes_the_entity_too(spark: SparkSession, namespace: Namespace) -> None:
    namespace.bus.create_queue("orders")
    frame = rows(spark, [("a",)], "body string")
    writer(namespace, frame, {}).save("orders")
    assert namespace.bodies("orders") == ["a"]


def test_rows_of_a_partition_keep_their_order_over_many_requests(
    spark: SparkSession, namespace: Namespace
) -> None:
    namespace.bus.create_queue("orders")
    namespace.bus.create_queue("billing")
    bodies = numbered("", range(1500))
    frame = rows(
        spark,
        [("orders" if int(body) % 3 else "billing", body) for body in bodies],
        "entity string, body string",
    )
    write(namespace, frame, maxBytesPerRequest="2k")
    orders = [body for body in bodies if int(body) % 3]
    assert [m for m in _bodies(namespace, "orders")] == orders
    assert _bodies(namespace, "billing") == [b for b in bodies if b not in set(orders)]


def _bodies(namespace: Namespace, entity: str) -> list[str]:
    return [str(message) for message in namespace.peek(entity, count=10_000)]


def test_a_scheduled_row_waits_for_its_time(
    spark: SparkSession, namespace: Namespace
) -> None:
    namespace.bus.create_queue("orders")
    due = namespace.bus.now().replace(microsecond=0) + timedelta(minutes=10)
    past = datetime(2001, 1, 1, tzinfo=UTC)
    frame = rows(
        spark,
        [("later", due), ("now", None), ("at once", past)],
        "body string, scheduled_time timestamp",
    )
    write(namespace, frame, entity="orders")
    found = {str(message): message for message in namespace.peek("orders")}
    assert found["later"].state is ServiceBusMessageState.SCHEDULED
    assert found["later"].scheduled_enqueue_time_utc == due
    assert found["now"].state is ServiceBusMessageState.ACTIVE
    assert found["at once"].state is ServiceBusMessageState.ACTIVE
    namespace.bus.advance(660)
    states = {message.state for message in namespace.peek("orders")}
    assert states == {ServiceBusMessageState.ACTIVE}


def test_a_null_body_is_an_empty_message(
    spark: SparkSession, namespace: Namespace
) -> None:
    namespace.bus.create_queue("orders")
    write(namespace, rows(spark, [(None,)], "body binary"), entity="orders")
    write(namespace, rows(spark, [("id",)], "message_id string"), entity="orders")
    for message in namespace.peek("orders"):
        assert list(message.body) == [b""]


def test_a_frame_without_rows_sends_nothing(
    spark: SparkSession, namespace: Namespace
) -> None:
    namespace.bus.create_queue("orders")
    write(namespace, spark.createDataFrame([], "body string"), entity="orders")
    assert namespace.peek("orders") == []


def test_what_was_read_can_be_written_elsewhere(
    spark: SparkSession, namespace: Namespace
) -> None:
    namespace.bus.create_queue("orders")
    namespace.bus.create_queue("copies")
    namespace.send(
        "orders", [ServiceBusMessage("a", subject="x", message_id="m"), "b", "c"]
    )
    read = namespace.read(spark, "orders").orderBy("sequence_number")
    # Without the option the column `entity` would send them back.
    write(namespace, read.coalesce(1), entity="copies")
    assert namespace.bodies("copies") == ["a", "b", "c"]
    assert namespace.peek("copies")[0].subject == "x"
    assert namespace.peek("copies")[0].message_id == "m"
    write(namespace, read)
    assert len(namespace.peek("orders")) == 6


def test_whole_messages_arrive_as_they_were(
    spark: SparkSession, namespace: Namespace
) -> None:
    for queue in ("orders", "copies"):
        namespace.bus.create_queue(queue)
    sent: list[ServiceBusMessage | AmqpAnnotatedMessage] = [
        ServiceBusMessage(
            b"\x00\xff",
            message_id="m-1",
            session_id="s",
            partition_key="s",
            time_to_live=timedelta(minutes=5),
            content_type="x/y",
            application_properties={
                "int": 7,
                "float": 1.5,
                "flag": True,
                "text": "t",
                "uuid": UUID(int=77),
                "time": datetime(2020, 1, 1, tzinfo=UTC),
            },
        ),
        AmqpAnnotatedMessage(value_body={"a": [1, "two"]}),
        AmqpAnnotatedMessage(sequence_body=[[1, 2], ["x"]]),
        AmqpAnnotatedMessage(data_body=[b"in", b"parts"], annotations={"x-own": "y"}),
    ]
    with (
        ServiceBusClient.from_connection_string(
            namespace.bus.connection_string
        ) as client,
        client.get_queue_sender("orders") as sender,
    ):
        for message in sent:
            sender.send_messages(message)
    read = namespace.read(spark, "orders", includeRaw=True)
    write(namespace, read.orderBy("sequence_number").coalesce(1), entity="copies")
    originals, copies = namespace.peek("orders"), namespace.peek("copies")
    assert len(copies) == len(sent)
    for original, copy in zip(originals, copies, strict=True):
        one, other = original.raw_amqp_message, copy.raw_amqp_message
        assert one.body_type is other.body_type
        assert _body(one) == _body(other)
        assert one.application_properties == other.application_properties
        assert one.header is not None and other.header is not None
        assert one.header.time_to_live == other.header.time_to_live
        assert _own(one.annotations) == _own(other.annotations)
        assert original.message_id == copy.message_id
        assert original.session_id == copy.session_id
    # To the last byte, but for what the bus says itself.
    columns = "raw", "sequence_number"
    first = namespace.read(spark, "orders", columns=",".join(columns)).collect()
    second = namespace.read(spark, "copies", columns=",".join(columns)).collect()
    assert [_bare(row.raw) for row in first] == [_bare(row.raw) for row in second]


def _body(message: AmqpAnnotatedMessage) -> object:
    is_value = message.body_type is AmqpMessageBodyType.VALUE
    return message.body if is_value else list(message.body)


def _own(annotations: object) -> dict[bytes, object]:
    assert isinstance(annotations, dict)
    bus = (b"x-opt-sequence-number", b"x-opt-enqueued-time", b"x-opt-message-state")
    return {key: value for key, value in annotations.items() if key not in bus}


def _bare(raw: bytearray) -> bytes:
    """Behind what the bus says: properties without the expiry, or the body."""
    from twinbus.encoding.resending import resendable

    return resendable(bytes(raw))


def test_raw_comes_first_and_other_columns_fill_its_gaps(
    spark: SparkSession, namespace: Namespace
) -> None:
    namespace.bus.create_queue("orders")
    namespace.bus.create_queue("copies")
    namespace.send("orders", [ServiceBusMessage("whole", subject="s")])
    read = namespace.read(spark, "orders", columns="raw,body")
    other = read.withColumn("raw", functions.lit(None).cast("binary")).withColumn(
        "body", functions.lit(b"made")
    )
    frame = read.withColumn("body", functions.lit(b"ignored")).union(other)
    write(namespace, frame.coalesce(1), entity="copies")
    assert sorted(namespace.bodies("copies")) == ["made", "whole"]


def test_a_dead_letter_goes_back_to_its_queue(
    spark: SparkSession, namespace: Namespace
) -> None:
    namespace.bus.create_queue("orders", dead_lettering_on_message_expiration=True)
    namespace.send(
        "orders", [ServiceBusMessage("a", time_to_live=timedelta(seconds=1))]
    )
    namespace.bus.advance(2)
    dead = namespace.read(spark, "orders/$deadletterqueue")
    assert [row.entity for row in dead.collect()] == ["orders"]
    write(namespace, dead.drop("time_to_live_ms"))
    assert namespace.bodies("orders") == ["a"]


def test_a_stream_is_written(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    for queue in ("orders", "copies"):
        namespace.bus.create_queue(queue)
    namespace.send("orders", numbered("o", range(50)))
    stream = namespace.stream(spark, "orders", maxMessagesPerBatch=20)
    query = (
        stream.writeStream.format("servicebus")
        .option("credential", namespace.credential)
        .option("entity", "copies")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(100)
    assert not query.isActive
    assert sorted(namespace.bodies("copies")) == sorted(numbered("o", range(50)))
