"""S1: `spark.read`: the present messages as a DataFrame; nothing is settled."""

from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue
from pyspark.sql import Row, SparkSession

from twinbus.spark.data_loss import DataLoss
from twinbus.spark.schema import COLUMNS
from twinbus.spark.source import batch_reader, schema_of

from .harness import Namespace, numbered

DEAD = ServiceBusSubQueue.DEAD_LETTER


def bodies(rows: list[Row]) -> list[str]:
    return [row.body.decode() for row in rows]


def test_a_queue_is_read_and_left_as_it_was(
    spark: SparkSession, namespace: Namespace
) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("o", range(50)))
    found = namespace.read(spark, "orders")
    # An action is a read of its own, and each sees the same.
    assert found.count() == 50
    assert sorted(bodies(found.collect())) == sorted(numbered("o", range(50)))
    assert sorted(bodies(found.collect())) == sorted(numbered("o", range(50)))
    assert len(namespace.peek("orders")) == 50
    assert namespace.receive("orders", 1) == ["o0"]


def test_every_column_of_a_message(spark: SparkSession, namespace: Namespace) -> None:
    namespace.bus.create_queue("orders", default_message_time_to_live="P1D")
    sent_at = namespace.bus.now()
    namespace.send(
        "orders",
        [
            ServiceBusMessage(
                b"\x00\xffbody",
                application_properties={"colour": "red", "count": 3, "is_new": True},
                session_id="s",
                message_id="m",
                partition_key="s",
                correlation_id="c",
                subject="subject",
                to="to",
                reply_to="reply",
                reply_to_session_id="replies",
                content_type="text/plain",
                time_to_live=timedelta(minutes=5),
            )
        ],
    )
    [row] = namespace.read(spark, "orders", includeRaw="true").collect()
    assert row.asDict().keys() == COLUMNS.keys()
    [peeked] = namespace.peek("orders")
    expected = {
        "entity": "orders",
        "subqueue": None,
        "partition": 0,
        "sequence_number": peeked.sequence_number,
        "message_id": "m",
        "session_id": "s",
        "partition_key": "s",
        "correlation_id": "c",
        "subject": "subject",
        "to": "to",
        "reply_to": "reply",
        "reply_to_session_id": "replies",
        "content_type": "text/plain",
        "time_to_live_ms": 300_000,
        "scheduled_time": None,
        "delivery_count": 0,
        "state": "active",
        "dead_letter_source": None,
        "dead_letter_reason": None,
        "dead_letter_description": None,
        "body": b"\x00\xffbody",
    }
    found = row.asDict()
    assert {name: found[name] for name in expected} == expected
    assert row.application_properties["colour"] == "red"
    assert row.application_properties["count"] == "3"
    assert row.application_properties["is_new"].lower() == "true"
    enqueued_at = row.enqueued_time.astimezone(UTC)
    assert abs(enqueued_at - sent_at) < timedelta(seconds=1)
    assert row.expires_at - row.enqueued_time == timedelta(minutes=5)
    assert row.size_bytes > len(b"\x00\xffbody")
    assert b"\x00\xffbody" in row.raw


def test_a_message_without_anything(spark: SparkSession, namespace: Namespace) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", [ServiceBusMessage(b"")])
    [row] = namespace.read(spark, "orders").collect()
    assert row.body == b""
    for name in ("session_id", "subject", "correlation_id", "content_type", "to"):
        assert row[name] is None
    assert not row.application_properties


def test_subscriptions_and_dead_letter_queues(
    spark: SparkSession, namespace: Namespace
) -> None:
    namespace.bus.create_topic("events")
    namespace.bus.create_subscription("events", "audit")
    namespace.bus.create_queue("orders")
    namespace.send_to_topic("events", ["e"])
    namespace.send("orders", numbered("o", range(3)))
    with namespace.receiver("orders") as receiver:
        [message] = receiver.receive_messages(1, max_wait_time=10)
        receiver.dead_letter_message(
            message, reason="bad", error_description="very bad"
        )
    found = namespace.read(
        spark, "events/subscriptions/audit,orders,orders/$DeadLetterQueue"
    ).collect()
    places = {(row.entity.lower(), row.subqueue, row.body.decode()) for row in found}
    assert places == {
        ("events/subscriptions/audit", None, "e"),
        ("orders", None, "o1"),
        ("orders", None, "o2"),
        ("orders", "deadletter", "o0"),
    }
    [dead] = [row for row in found if row.subqueue == "deadletter"]
    assert (dead.dead_letter_reason, dead.dead_letter_description) == (
        "bad",
        "very bad",
    )
    assert len(namespace.peek("orders", sub_queue=DEAD)) == 1


def test_a_pattern_finds_what_fits_it(
    spark: SparkSession, namespace: Namespace
) -> None:
    for name in ("orders-eu", "orders-us", "billing"):
        namespace.bus.create_queue(name)
        namespace.send(name, [name])
    found = (
        spark.read.format("servicebus")
        .option("credential", namespace.credential)
        .option("entityPattern", "ORDERS-*")
        .load()
    )
    assert sorted(bodies(found.collect())) == ["orders-eu", "orders-us"]
    nothing = (
        spark.read.format("servicebus")
        .option("credential", namespace.credential)
        .option("entityPattern", "parcels-*")
        .load()
    )
    assert nothing.collect() == []


def test_a_path_may_be_loaded_and_asked_by_sql(
    spark: SparkSession, namespace: Namespace
) -> None:
    namespace.bus.create_queue("orders")
    namespace.send(
        "orders",
        [
            ServiceBusMessage(
                f"{n}", subject="even" if n % 2 == 0 else "odd", session_id=f"s{n % 3}"
            )
            for n in range(30)
        ],
    )
    loaded = (
        spark.read.format("servicebus")
        .option("credential", namespace.credential)
        .load("orders")
    )
    loaded.createOrReplaceTempView("orders")
    found = spark.sql(
        "SELECT subject, count(DISTINCT session_id) AS sessions, "
        "sum(CAST(CAST(body AS STRING) AS INT)) AS total, "
        "min(sequence_number) < max(sequence_number) AS rises "
        "FROM orders WHERE session_id <> 's9' GROUP BY subject ORDER BY subject"
    ).collect()
    assert [tuple(row) for row in found] == [
        ("even", 3, sum(range(0, 30, 2)), True),
        ("odd", 3, sum(range(1, 30, 2)), True),
    ]


def test_ranges_by_number(spark: SparkSession, namespace: Namespace) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("o", range(10)))
    numbers = [message.sequence_number for message in namespace.peek("orders")]

    def found(**bounds: object) -> list[str]:
        return bodies(namespace.read(spark, "orders", **bounds).collect())

    # Both ends are part of it.
    assert found(fromSequence=numbers[3], toSequence=numbers[5]) == ["o3", "o4", "o5"]
    assert found(fromSequence=numbers[8]) == ["o8", "o9"]
    assert found(toSequence=numbers[1]) == ["o0", "o1"]
    assert found(fromSequence=numbers[9] + 1) == []
    assert found(fromSequence=numbers[5], toSequence=numbers[4]) == []
    assert found(toSequence=10**15) == numbered("o", range(10))


def test_ranges_by_time(spark: SparkSession, namespace: Namespace) -> None:
    namespace.bus.create_queue("orders")
    times: list[datetime] = []
    for n in range(4):
        times.append(namespace.bus.now())
        namespace.send("orders", [f"o{n}"])
        namespace.bus.advance(60)

    def found(**bounds: datetime) -> list[str]:
        texts = {name: at.isoformat() for name, at in bounds.items()}
        return bodies(namespace.read(spark, "orders", **texts).collect())

    # The start is part of it, the end is not.
    assert found(startTime=times[1], endTime=times[3]) == ["o1", "o2"]
    assert found(startTime=times[3]) == ["o3"]
    assert found(endTime=times[1]) == ["o0"]
    assert found(startTime=namespace.bus.now()) == []
    assert found(startTime=times[2], endTime=times[1]) == []


def test_columns_are_chosen(spark: SparkSession, namespace: Namespace) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", ["one"])
    assert namespace.read(spark, "orders", columns="body,entity").collect() == [
        Row(entity="orders", body=b"one")
    ]
    header = namespace.read(spark, "orders", columns="header")
    assert "body" not in header.columns
    assert header.count() == 1
    only_raw = namespace.read(spark, "orders", columns="raw")
    assert only_raw.columns == ["raw"]
    [row] = only_raw.collect()
    assert b"one" in row.raw


def test_states_are_chosen(spark: SparkSession, namespace: Namespace) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", ["deferred", "active"])
    with namespace.receiver("orders") as receiver:
        [message] = receiver.receive_messages(1, max_wait_time=10)
        receiver.defer_message(message)
    due = namespace.bus.now() + timedelta(hours=1)
    namespace.send(
        "orders", [ServiceBusMessage("scheduled", scheduled_enqueue_time_utc=due)]
    )

    def found(states: str) -> list[tuple[str, str]]:
        rows = namespace.read(spark, "orders", states=states).collect()
        return sorted((row.state, row.body.decode()) for row in rows)

    assert found("active") == [("active", "active")]
    assert found("deferred") == [("deferred", "deferred")]
    assert found("scheduled") == [("scheduled", "scheduled")]
    assert found("active, deferred, scheduled") == [
        ("active", "active"),
        ("deferred", "deferred"),
        ("scheduled", "scheduled"),
    ]


def test_an_empty_queue_is_an_empty_frame(
    spark: SparkSession, namespace: Namespace
) -> None:
    namespace.bus.create_queue("orders")
    found = namespace.read(spark, "orders")
    assert found.count() == 0
    assert found.columns == [name for name in COLUMNS if name != "raw"]


def test_sessions_are_read_like_anything(
    spark: SparkSession, namespace: Namespace
) -> None:
    namespace.bus.create_queue("steps", requires_session=True)
    namespace.send(
        "steps",
        [ServiceBusMessage(f"{n}", session_id=f"s{n % 2}") for n in range(6)],
    )
    with namespace.receiver("steps", session_id="s0") as receiver:
        # Whoever holds a session keeps nobody from looking.
        assert len(receiver.receive_messages(2, max_wait_time=10)) == 2
        rows = namespace.read(spark, "steps").collect()
    assert [(row.session_id, row.body) for row in rows] == [
        (f"s{n % 2}", b"%d" % n) for n in range(6)
    ]


def test_three_hundred_queues_are_few_partitions(
    spark: SparkSession, namespace: Namespace
) -> None:
    names = [f"q{n}" for n in range(300)]
    for name in names:
        namespace.bus.create_queue(name)
    namespace.append([(name, name) for name in names])
    options = {
        "credential": namespace.credential,
        "entityPattern": "q*",
        "maxPartitions": "4",
    }
    found = spark.read.format("servicebus").options(**options).load()
    assert found.rdd.getNumPartitions() == 4
    rows = found.select("entity", "body").collect()
    assert sorted((row.entity, row.body) for row in rows) == sorted(
        (name, name.encode()) for name in names
    )


def test_large_messages_come_in_pages(
    spark: SparkSession, namespace: Namespace
) -> None:
    """Twenty megabytes are more than one answer may have."""
    namespace.bus.create_queue("large")
    namespace.append([("large", f"{n:04}" + "x" * 200_000) for n in range(100)])
    found = namespace.read(spark, "large", columns="body", maxPartitions=1)
    rows = found.selectExpr("substring(body, 1, 4) AS id", "length(body) AS size")
    assert [(row.id, row.size) for row in rows.collect()] == [
        (b"%04d" % n, 200_004) for n in range(100)
    ]


def test_messages_that_others_take_meanwhile_are_missing(
    spark: SparkSession, namespace: Namespace
) -> None:
    """Planned, then taken, then read. Looking is no promise, unless it is asked for."""
    namespace.bus.create_queue("orders")
    namespace.send("orders", numbered("o", range(10)))
    loose = namespace.options("orders")
    strict = namespace.options("orders", failOnDataLoss="true")
    readers = [batch_reader(given, schema_of(given)) for given in (loose, strict)]
    planned = [(reader, reader.partitions()) for reader in readers]
    assert len(namespace.receive("orders", 4)) == 4
    (reader, parts), (strict_reader, strict_parts) = planned
    counts = [batch.num_rows for part in parts for batch in reader.read(part)]
    assert sum(counts) == 6
    with pytest.raises(DataLoss, match=r"4 of 10 messages of 'orders'.*failOnDataLoss"):
        for part in strict_parts:
            list(strict_reader.read(part))


def test_a_token_that_may_not_listen_is_refused(
    spark: SparkSession, namespace: Namespace
) -> None:
    namespace.bus.create_queue("orders")
    namespace.secret_file.write_text(namespace.bus.connection_string_for("Send"))
    with pytest.raises(Exception, match=r"(?i)listen"):
        namespace.read(spark, "orders").collect()


def test_listening_is_all_that_a_reader_needs(
    spark: SparkSession, namespace: Namespace
) -> None:
    namespace.bus.create_queue("orders")
    namespace.send("orders", ["one"])
    namespace.secret_file.write_text(namespace.bus.connection_string_for("Listen"))
    assert bodies(namespace.read(spark, "orders").collect()) == ["one"]
