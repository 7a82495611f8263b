"""Rows as messages: they contain the values of the columns, and nothing else."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from twinbus.amqp.messaging import (
    AmqpValue,
    Data,
    Header,
    Message,
    Properties,
    decode_message,
    encode_message,
)
from twinbus.amqp.types import Timestamp
from twinbus.encoding.incoming import read_message
from twinbus.limits import DURATION_MS_UNLIMITED
from twinbus.spark.row_errors import RowError
from twinbus.spark.row_messages import EncodedRows, encode_rows
from twinbus.spark.write_options import WriteOptions, write_options

from .ddl import schema_of

SECRET = "Endpoint=sb://h;SharedAccessKeyName=n;SharedAccessKey=k"
TEXTS = pa.map_(pa.string(), pa.string())
INSTANT = pa.timestamp("us", tz="UTC")

TYPES = {
    "string": pa.string(),
    "binary": pa.binary(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "timestamp": INSTANT,
    "map<string,string>": TEXTS,
}


def planned(schema: str, **options: str) -> WriteOptions:
    given = {"connectionString": SECRET, **options}
    if "entity" not in schema and "entityColumn" not in options:
        given.setdefault("entity", "orders")
    return write_options(given, schema_of(schema), overwrite=False)


def batch(schema: str, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    fields = [field.strip().split(" ", 1) for field in schema.split(", ")]
    return pa.record_batch(
        [
            pa.array([row[at] for row in rows], TYPES[kind])
            for at, (_, kind) in enumerate(fields)
        ],
        names=[name for name, _ in fields],
    )


def encoded(schema: str, rows: list[tuple[Any, ...]], **options: str) -> EncodedRows:
    return encode_rows(batch(schema, rows), planned(schema, **options))


def messages(schema: str, rows: list[tuple[Any, ...]], **options: str) -> list[Message]:
    found = encoded(schema, rows, **options).messages
    # The bus takes each of them.
    for message in found:
        read_message(message)
    return [decode_message(message) for message in found]


def refused(schema: str, rows: list[tuple[Any, ...]], **options: str) -> str:
    with pytest.raises(RowError) as caught:
        encoded(schema, rows, **options)
    return str(caught.value)


@pytest.mark.parametrize("body", [b"", b"x", b"y" * 255, b"z" * 256, b"\xff" * 70_000])
def test_a_body_is_data_of_any_size(body: bytes) -> None:
    assert messages("body binary", [(body,)]) == [Message(body=Data((body,)))]


def test_a_text_is_a_body_too() -> None:
    [message] = messages("body string", [("grün",)])
    assert message.body == Data(("grün".encode(),))


def test_texts_go_into_their_properties() -> None:
    names = (
        *("message_id", "to", "subject", "reply_to", "correlation_id", "content_type"),
        *("session_id", "reply_to_session_id"),
    )
    schema = ", ".join(f"{name} string" for name in names)
    long = "l" * 300
    rows = [tuple(names), (None,) * 8, ("", None, long, *(None,) * 5)]
    first, second, third = messages(schema, rows)
    assert first.properties == Properties(
        message_id="message_id",
        to="to",
        subject="subject",
        reply_to="reply_to",
        correlation_id="correlation_id",
        content_type="content_type",
        group_id="session_id",
        reply_to_group_id="reply_to_session_id",
    )
    assert second == Message(body=Data((b"",)))
    assert third.properties == Properties(message_id="", subject=long)


def test_a_partition_key_and_a_time_are_annotations() -> None:
    due = datetime(2030, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
    schema = "partition_key string, scheduled_time timestamp"
    rows = [("k", due), (None, due), ("k", None), (None, None)]
    at = Timestamp(int(due.timestamp() * 1000))
    key, when = "x-opt-partition-key", "x-opt-scheduled-enqueue-time"
    assert [message.message_annotations for message in messages(schema, rows)] == [
        {key: "k", when: at},
        {when: at},
        {key: "k"},
        None,
    ]


@pytest.mark.parametrize("kind", ["bigint", "int"])
def test_a_time_to_live_is_in_the_header(kind: str) -> None:
    first, second = messages(f"time_to_live_ms {kind}", [(1,), (None,)])
    assert first.header == Header(ttl=1)
    assert second.header is None


def test_a_life_that_no_header_holds_is_told_by_two_times() -> None:
    days_100 = 100 * 86_400_000
    first, second = messages("time_to_live_ms bigint", [(days_100,), (5,)])
    assert first.header == Header(ttl=(1 << 32) - 1)
    assert first.properties is not None
    created, expires = (
        first.properties.creation_time,
        first.properties.absolute_expiry_time,
    )
    assert created is not None and expires == created + days_100
    assert second.header == Header(ttl=5) and second.properties is None


def test_a_life_of_any_length_is_one() -> None:
    """The largest number there is stands for ever in many a table."""
    [message] = messages("time_to_live_ms bigint", [((1 << 63) - 1,)])
    assert message.properties is not None
    created, expires = (
        message.properties.creation_time,
        message.properties.absolute_expiry_time,
    )
    assert created is not None and expires == created + DURATION_MS_UNLIMITED


def test_application_properties_are_those_of_their_row() -> None:
    many = [(f"k{i}", "v" * 20) for i in range(200)]
    rows = [([("a", "b"), ("c", None)],), (None,), ([],), (many,)]
    schema = "application_properties map<string,string>"
    found = [message.application_properties for message in messages(schema, rows)]
    assert found == [{"a": "b", "c": None}, None, None, dict(many)]


def test_a_part_of_a_batch_has_its_own_maps() -> None:
    schema = "application_properties map<string,string>"
    whole = batch(schema, [([(str(i), "v")],) for i in range(10)])
    rows = encode_rows(whole.slice(4, 2), planned(schema))
    found = [decode_message(message) for message in rows.messages]
    assert [m.application_properties for m in found] == [{"4": "v"}, {"5": "v"}]


def test_large_types_of_arrow_are_the_same() -> None:
    schema = "entity string, body binary, subject string"
    given = batch(schema, [("q", b"b", "s")])
    large = pa.schema(
        [
            ("entity", pa.large_string()),
            ("body", pa.large_binary()),
            ("subject", pa.large_string()),
        ]
    )
    options = planned(schema)
    assert encode_rows(given.cast(large), options) == encode_rows(given, options)


def test_entities_come_without_strokes_around_them() -> None:
    rows = encoded("entity string, body string", [("a/b", "x"), (" /c/ ", "y")])
    assert rows.entities == ["a/b", "c"]


@pytest.mark.parametrize("kind", ["string", "binary"])
def test_equal_ids_make_equal_send_ids(kind: str) -> None:
    schema = f"body string, id {kind}"
    values = [b"1", b"2", b"1"] if kind == "binary" else ["1", "2", "1"]
    rows = [("x", value) for value in values]
    ids = [_send_id(m) for m in messages(schema, rows, idColumn="id")]
    assert ids[0] == ids[2] != ids[1]
    assert all(isinstance(found, bytes) and len(found) == 16 for found in ids)
    scoped = messages(schema, rows, idColumn="id", idScope="other")
    assert not {_send_id(m) for m in scoped} & set(ids)


def _send_id(message: Message) -> object:
    assert message.message_annotations is not None
    return message.message_annotations["x-opt-twinbus-send-id"]


def test_a_whole_message_is_sent_as_it_is_with_the_id_of_its_row() -> None:
    sent = Message(properties=Properties(message_id=7), body=AmqpValue({"a": 1}))
    raw = encode_message(sent)
    assert encoded("raw binary", [(raw,)]).messages == [raw]
    schema = "raw binary, id string, subject string"
    [found] = messages(schema, [(raw, "1", "not this one")], idColumn="id")
    assert (found.properties, found.body) == (sent.properties, sent.body)
    assert isinstance(_send_id(found), bytes)


def test_where_there_is_no_whole_message_the_columns_count() -> None:
    raw = encode_message(Message(body=Data((b"whole",))))
    found = messages("raw binary, body string", [(raw, "a"), (None, "b")])
    assert [message.body for message in found] == [Data((b"whole",)), Data((b"b",))]


@pytest.mark.parametrize(
    ("schema", "row", "text"),
    [
        ("entity string, body string", (None, "x"), "'entity' is null or empty in 1"),
        ("entity string, body string", ("//", "x"), "'entity' is null or empty in 1"),
        ("raw binary", (None,), "'raw' is null in a row that has nothing else"),
        ("raw binary", (b"",), "has 0 bytes in a row that are no AMQP message"),
        ("raw binary", (b"text",), "has 4 bytes in a row that are no AMQP message"),
        ("time_to_live_ms bigint", (0,), "'time_to_live_ms' is 0 in a row"),
        ("time_to_live_ms bigint", (-1,), "'time_to_live_ms' is -1 in a row"),
        ("content_type string", ("grün",), "'content_type' is 'grün'; only ASCII"),
    ],
)
def test_a_row_that_cannot_be_a_message(
    schema: str, row: tuple[Any, ...], text: str
) -> None:
    assert text in refused(schema, [row])


@pytest.mark.parametrize("value", [None, ""])
def test_a_row_without_an_id(value: str | None) -> None:
    text = refused("body string, id string", [("x", value)], idColumn="id")
    assert "'id', which 'idColumn' names, is null or empty in 1 of 1 rows" in text


@pytest.mark.parametrize("name", ["entity", "subject", "application_properties"])
def test_bytes_that_are_no_text(name: str) -> None:
    bad = pa.array([b"\xff"]).view(pa.string())
    column = bad
    kind = "string"
    if name == "application_properties":
        kind = "map<string,string>"
        column = pa.MapArray.from_arrays([0, 1], pa.array(["k"]), bad)
    rows = pa.record_batch([column, pa.array([b"x"])], names=[name, "body"])
    with pytest.raises(RowError, match=f"'{name}' has a string that is not valid UTF"):
        encode_rows(rows, planned(f"{name} {kind}, body binary"))
