"""S1: invalid rows and options: an error that says what to do, nothing is lost."""

from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions

from .harness import Namespace
from .writing import refusal, rows, write, writer

Frames = Callable[..., DataFrame]


@pytest.fixture
def frames(spark: SparkSession) -> Frames:
    """Bodies, and any columns besides."""

    def make(*bodies: str | bytes | None, **columns: object) -> DataFrame:
        kind = "binary" if isinstance(bodies[0], bytes) else "string"
        frame = rows(spark, [(body,) for body in bodies], f"body {kind}")
        for name, value in columns.items():
            frame = frame.withColumn(name, functions.lit(value))
        return frame

    return make


@pytest.fixture(autouse=True)
def orders(namespace: Namespace) -> None:
    namespace.bus.create_queue("orders")


# --- at planning ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "The rows have no destination. Give the option 'entity'"),
        (
            {"entity": "orders", "entityColumn": "x"},
            "Give either 'entity' (one queue or topic for all rows) or 'entityColumn'",
        ),
        ({"entityColumn": "no"}, "'entityColumn' is 'no', and the DataFrame has no"),
        (
            {"entity": "orders", "idColumn": "no"},
            "'idColumn' is 'no', and the DataFrame has no such column. It has body, x.",
        ),
        ({"entity": "orders", "idscop": "a"}, "Did you mean 'idScope'?"),
        ({"entity": "orders", "idScope": "a"}, "'idScope' is given without 'idColumn'"),
        ({"entity": "a,b"}, "it must be the path of one queue or topic"),
        (
            {"entity": "orders", "maxBytesPerRequest": "1g"},
            "'maxBytesPerRequest' is 1073741824 bytes; it must be from 1024 to",
        ),
        ({"entity": "orders", "timeout": "soon"}, "'timeout' is 'soon'; it must be a"),
        ({"entity": "orders"}, "The column 'x' is not one of a message. Drop it, put"),
    ],
)
def test_options_that_cannot_be(
    namespace: Namespace, frames: Frames, options: dict[str, str], text: str
) -> None:
    assert text in refusal(namespace, frames("a", x="y"), **options)
    assert namespace.peek("orders") == []


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ("body int", "The column 'body' is of type int; it must be binary or string."),
        ("subject int", "The column 'subject' is of type int; it must be string."),
        ("raw string", "The column 'raw' is of type string; it must be binary. Cast"),
        ("scheduled_time string", "it must be timestamp. Cast it, or drop it."),
        ("time_to_live_ms double", "it must be bigint or int or smallint or tinyint"),
        ("application_properties map<int,string>", "it must be map<string,string>,"),
        ("application_properties map<string,date>", "which AMQP does not have. Cast"),
        ("sequence_number bigint", "The DataFrame has no column of a message."),
    ],
)
def test_columns_of_other_types(
    spark: SparkSession, namespace: Namespace, columns: str, text: str
) -> None:
    frame = spark.createDataFrame([], columns)
    assert text in refusal(namespace, frame, entity="orders")


def test_an_id_of_another_type(namespace: Namespace, frames: Frames) -> None:
    text = refusal(namespace, frames("a", id=1), entity="orders", idColumn="id")
    assert "The column 'id' is of type int; it must be binary or string." in text


def test_overwriting_is_refused(namespace: Namespace, frames: Frames) -> None:
    with pytest.raises(PySparkException) as caught:
        writer(namespace, frames("a"), {"entity": "orders"}).mode("overwrite").save()
    assert "Queues and topics are not overwritten" in str(caught.value)


def test_a_wrong_key_is_told_without_the_key(
    namespace: Namespace, frames: Frames
) -> None:
    wrong = namespace.bus.connection_string.replace(namespace.bus.key, "c2VjcmV0LWtleQ")
    namespace.secret_file.write_text(wrong)
    text = refusal(namespace, frames("a"), entity="orders")
    assert "Check the key name, the key" in text
    assert "c2VjcmV0LWtleQ" not in text


def test_a_key_that_may_not_send(namespace: Namespace, frames: Frames) -> None:
    listen = namespace.bus.connection_string_for("Listen")
    namespace.secret_file.write_text(listen)
    text = refusal(namespace, frames("a"), entity="orders")
    assert "'Send' claim(s) are required" in text and "'orders'" in text
    assert namespace.peek("orders") == []


# --- in rows --------------------------------------------------------------------


@pytest.mark.parametrize("entity", [None, "", " / "])
def test_a_row_without_an_entity(
    spark: SparkSession, namespace: Namespace, entity: str | None
) -> None:
    frame = rows(spark, [("orders", "a"), (entity, "b")], "entity string, body string")
    text = refusal(namespace, frame)
    assert "The column 'entity' is null or empty in 1 of 2 rows" in text
    # Rows that are read together are looked at before one of them is sent.
    assert namespace.peek("orders") == []


def test_a_row_without_an_id(spark: SparkSession, namespace: Namespace) -> None:
    frame = rows(spark, [("a", "1"), ("b", None)], "body string, id string")
    text = refusal(namespace, frame, entity="orders", idColumn="id")
    assert "'id', which 'idColumn' names, is null or empty in 1 of 2 rows" in text
    assert namespace.peek("orders") == []


def test_a_row_that_is_too_large(namespace: Namespace, frames: Frames) -> None:
    frame = frames("a", "b" * 300_000, "c").withColumn(
        "message_id", functions.substring("body", 1, 3)
    )
    ids = {"entity": "orders", "idColumn": "message_id"}
    text = refusal(namespace, frame, **ids)
    assert "A row for 'orders' with the message id 'bbb' was not sent" in text
    assert "The message of 3000" in text and "is larger than the 262144 bytes" in text
    assert "Send a smaller one, or raise the entity's limit." in text
    # The others are there, and a second run without it sends nothing twice.
    assert sorted(namespace.bodies("orders")) == ["a", "c"]
    write(namespace, frame.where("length(body) < 100000"), **ids)
    assert sorted(namespace.bodies("orders")) == ["a", "c"]


def test_a_row_that_no_request_can_hold(namespace: Namespace, frames: Frames) -> None:
    frame = frames("a", message_id="m1")
    frame = frame.withColumn("body", functions.repeat("body", 9 << 20))
    text = refusal(namespace, frame, entity="orders")
    assert "A row for 'orders' with the message id 'm1' was not sent" in text
    assert "The message of 94372" in text
    assert "larger than the 8323072 bytes that one request takes" in text
    assert "Send it over AMQP, with an SDK, or store what it has elsewhere" in text


def test_an_entity_that_is_not_there(namespace: Namespace, frames: Frames) -> None:
    text = refusal(namespace, frames("a"), entity="ordres")
    assert "A row for 'ordres' was not sent" in text
    assert "The messaging entity 'ordres' could not be found." in text


def test_an_entity_that_is_disabled(namespace: Namespace, frames: Frames) -> None:
    namespace.bus.update_queue("orders", status="SendDisabled")
    text = refusal(namespace, frames("a"), entity="orders")
    assert "'orders' has status SendDisabled and does not allow sending" in text
    assert "Set its status to Active to use it." in text


def test_a_subscription_takes_no_rows(namespace: Namespace, frames: Frames) -> None:
    namespace.bus.create_topic("news")
    namespace.bus.create_subscription("news", "all")
    text = refusal(namespace, frames("a"), entity="news/subscriptions/all")
    assert "A row for 'news/subscriptions/all' was not sent" in text


def test_a_session_id_is_missing_where_it_is_required(
    namespace: Namespace, frames: Frames
) -> None:
    namespace.bus.create_queue("sessions", requires_session=True)
    text = refusal(namespace, frames("a"), entity="sessions")
    assert "'sessions' requires sessions: set the message's session id." in text


def test_another_partition_key_than_the_session(
    namespace: Namespace, frames: Frames
) -> None:
    frame = frames("a", session_id="s", partition_key="p")
    text = refusal(namespace, frame, entity="orders")
    assert "the partition key 'p' and the session id 's'" in text


def test_an_id_that_is_too_long(namespace: Namespace, frames: Frames) -> None:
    text = refusal(namespace, frames("a", message_id="m" * 129), entity="orders")
    assert "The message id has 129 characters; at most 128 are allowed." in text


@pytest.mark.parametrize("raw", [b"", b"hello", b"\x00\x53\x75\xa0\xff", bytes(40)])
def test_bytes_that_are_no_message(
    spark: SparkSession, namespace: Namespace, raw: bytes
) -> None:
    frame = rows(spark, [(raw,)], "raw binary")
    text = refusal(namespace, frame, entity="orders")
    assert f"The column 'raw' has {len(raw)} bytes in a row that are no AMQP" in text
    assert "includeRaw=true" in text


def test_a_raw_message_that_is_null(spark: SparkSession, namespace: Namespace) -> None:
    text = refusal(namespace, rows(spark, [(None,)], "raw binary"), entity="orders")
    assert "The column 'raw' is null in a row that has nothing else" in text


def test_a_time_to_live_that_is_none(namespace: Namespace, frames: Frames) -> None:
    text = refusal(namespace, frames("a", time_to_live_ms=0), entity="orders")
    assert "'time_to_live_ms' is 0 in a row; it must be at least 1, or null" in text


def test_a_text_that_is_none(namespace: Namespace, frames: Frames) -> None:
    frame = frames("a").withColumn("subject", functions.expr("cast(X'ff' as string)"))
    text = refusal(namespace, frame, entity="orders")
    assert "The column 'subject' has a string that is not valid UTF-8." in text
