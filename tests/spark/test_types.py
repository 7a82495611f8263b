"""S1: AMQP types of properties, ids and bodies through reading and writing."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from azure.servicebus import ServiceBusMessage
from pyspark.sql import SparkSession

from twinbus.amqp.messaging import (
    AmqpSequence,
    AmqpValue,
    Data,
    Message,
    Properties,
    decode_message,
    encode_message,
)
from twinbus.amqp.types import (
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float32,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from twinbus.spark.bulk.client import BulkClient
from twinbus.spark.connection import SparkConnection
from twinbus.spark.secret import Secret
from twinbus.spark.source import batch_reader, schema_of
from twinbus.testing import rule

from .harness import Namespace
from .writing import refusal, rows, write

ID = UUID("00112233-4455-6677-8899-aabbccddeeff")

EVERY_TYPE: dict[str, object] = {
    "string": "text \u00e9",
    "long string": "t" * 300,
    "null": None,
    "boolean": True,
    "ubyte": UByte(255),
    "ushort": UShort(65_535),
    "uint": UInt(4_294_967_295),
    "ulong": ULong((1 << 64) - 1),
    "byte": Byte(-128),
    "short": Short(-32_768),
    "int": Int(7),
    "long": 1 << 40,
    "float": Float32(0.10000000149011612),
    "double": 0.1,
    "decimal32": Decimal32(b"\x01\x02\x03\x04"),
    "decimal64": Decimal64(bytes(range(8))),
    "decimal128": Decimal128(bytes(range(16))),
    "char": Char("\U0001f600"),
    "timestamp": Timestamp(1_763_373_600_123),
    "uuid": ID,
    "binary": b"\x00\xff",
    "symbol": Symbol("a-symbol"),
    "timespan": Described(Symbol("com.microsoft:timespan"), 50_000_000),
    "list": [1, "two", None],
}

MESSAGES = [
    Message(application_properties=EVERY_TYPE, body=Data((b"data",))),
    Message(application_properties={"only": "strings"}, body=Data((b"",))),
    Message(
        properties=Properties(message_id=ID, correlation_id=ULong(5)),
        body=AmqpValue("a text as value"),
    ),
    Message(properties=Properties(message_id="m-3"), body=AmqpValue(Int(-5))),
    Message(properties=Properties(message_id="m-4"), body=AmqpValue(b"\x00\xff")),
    Message(properties=Properties(message_id="m-5")),
]
SEQUENCE = Message(
    properties=Properties(message_id="m-6"), body=AmqpSequence(([1, 2],))
)


def put(namespace: Namespace, queue: str, messages: Sequence[Message]) -> None:
    client = BulkClient(
        SparkConnection(secret=Secret(text=namespace.bus.connection_string)), 60_000
    )
    encoded = [encode_message(message) for message in messages]
    table = pa.table(
        [[queue] * len(encoded), encoded],
        schema=pa.schema([("entity", pa.string()), ("message", pa.binary())]),
    )
    assert client.append(table).applied_count == len(messages)
    client.close()


def seen(namespace: Namespace, queue: str) -> list[tuple[Any, ...]]:
    """The messages of a queue by their exact bytes; the types count as well."""
    given = namespace.options(queue, columns="raw", maxPartitions=1)
    reader = batch_reader(given, schema_of(given))
    found = []
    for part in reader.partitions():
        for batch in reader.read(part):
            for raw in batch.column(0).to_pylist():
                message = decode_message(raw)
                properties = message.properties or Properties()
                named = typed(message.application_properties)
                ids = typed([properties.message_id, properties.correlation_id])
                # A message without an id gets one: another at each send.
                ids = ids[1:] if ids[0][0] is str and "m-" not in ids[0][1] else ids
                found.append((named, ids, typed(message.body)))
    return found


def typed(value: Any) -> Any:
    """With the types of values, because `7 == Int(7)`."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [typed(item) for item in value]
    if isinstance(value, AmqpValue):
        return "value", typed(value.value)
    return type(value), value


def test_every_type_survives_a_read_and_a_write(
    spark: SparkSession, namespace: Namespace, tmp_path: Path
) -> None:
    for name in ("sent", "copied", "replayed"):
        namespace.bus.create_queue(name)
    put(namespace, "sent", MESSAGES)
    read = namespace.read(spark, "sent", maxPartitions=1)
    write(namespace, read, entity="copied")
    expected = seen(namespace, "sent")
    assert expected[0][0] == typed(EVERY_TYPE)
    assert seen(namespace, "copied") == expected
    # And through files, as capture and replay do it.
    read.write.parquet(str(tmp_path / "lake"))
    write(namespace, spark.read.parquet(str(tmp_path / "lake")), entity="replayed")
    assert seen(namespace, "replayed") == expected


def test_types_survive_over_amqp(spark: SparkSession, strict: Namespace) -> None:
    strict.bus.create_queue("sent")
    strict.bus.create_queue("copied")
    sent = {"n": 7, "ok": True, "s": "7", "x": 0.5, "id": ID, "b": b"\x00"}
    strict.send("sent", [ServiceBusMessage("a", application_properties=sent)])
    write(strict, strict.read(spark, "sent"), entity="copied")
    [original], [copy] = strict.peek("sent"), strict.peek("copied")
    assert typed(copy.application_properties) == typed(original.application_properties)
    assert copy.application_properties == {
        key.encode(): value.encode() if isinstance(value, str) else value
        for key, value in sent.items()
    }


def test_an_integer_of_a_row_matches_the_rule_that_an_sdks_does(
    spark: SparkSession, namespace: Namespace
) -> None:
    namespace.bus.create_queue("orders")
    namespace.bus.create_topic("events")
    namespace.bus.create_subscription(
        "events", "seven", rules=[rule("n", sql_filter="n = 7 AND ok = TRUE")]
    )
    namespace.send(
        "orders",
        [ServiceBusMessage("sdk", application_properties={"n": 7, "ok": True})],
    )
    write(namespace, namespace.read(spark, "orders"), entity="events")
    frame = rows(spark, [("own",)], "body string")
    kinds = ("tinyint", "smallint", "int", "bigint", "double")
    fields = ", ".join(f"cast(7 AS {kind}) AS {kind}" for kind in kinds)
    namespace.bus.add_rule(
        *("events", "seven", "own"),
        sql_filter=" AND ".join(f"[{kind}] = 7" for kind in kinds),
    )
    own = f"struct({fields}) AS application_properties"
    write(namespace, frame.selectExpr("body", own), entity="events")
    # The same texts, first as strings, then with their types.
    texts = "map('n', '7', 'ok', 'true') AS application_properties"
    named = "map('n', 'int', 'ok', 'boolean') AS application_property_types"
    nothing = "cast(NULL AS map<string,string>) AS application_property_types"
    both = frame.selectExpr("'strings' AS body", texts, nothing).unionAll(
        frame.selectExpr("'named' AS body", texts, named)
    )
    write(namespace, both, entity="events")
    assert namespace.bodies("events/subscriptions/seven") == ["sdk", "own", "named"]


def test_values_of_spark_types(spark: SparkSession, namespace: Namespace) -> None:
    namespace.bus.create_queue("orders")
    at = datetime(2026, 11, 17, 12, tzinfo=UTC)
    frame = rows(
        spark,
        [("a", {"n": 1, "m": None}, (1, 0.5, at, b"b", None))],
        "body string, numbers map<string,bigint>, "
        "fields struct<i: int, f: float, at: timestamp, b: binary, none: string>",
    )
    for column in ("numbers", "fields"):
        chosen = frame.selectExpr("body", f"{column} AS application_properties")
        write(namespace, chosen, entity="orders")
    numbers, fields = (m.application_properties for m in namespace.peek("orders"))
    assert numbers == {b"n": 1, b"m": None}
    assert fields == {b"i": 1, b"f": 0.5, b"at": 1_794_916_800_000, b"b": b"b"}


def test_types_are_not_lost_without_a_word(
    spark: SparkSession, namespace: Namespace
) -> None:
    namespace.bus.create_queue("sent")
    namespace.bus.create_queue("copied")
    namespace.send("sent", [ServiceBusMessage("a", application_properties={"n": 7})])
    read = namespace.read(spark, "sent").select("body", "application_properties")
    text = refusal(namespace, read, entity="copied")
    assert "numbers and booleans would become strings" in text
    assert "Keep 'application_property_types'" in text
    assert namespace.peek("copied") == []
    write(namespace, read, entity="copied", propertyTypes="strings")
    [message] = namespace.peek("copied")
    assert message.application_properties == {b"n": b"7"}


@pytest.mark.parametrize(
    ("columns", "texts"),
    [
        (
            "map('n', 'seven') AS application_properties, "
            "map('n', 'long') AS application_property_types",
            [
                "row 1 of 1 of its batch (message_id 'm-1')",
                "the application property 'n' is 'seven'",
                "is 'long': it must be a whole number",
                "Correct the value or the type",
            ],
        ),
        (
            "struct(cast(1 AS decimal(4,1)) AS price) AS application_properties",
            ["application_properties.price are of type decimal(4,1)", "Cast them to"],
        ),
    ],
)
def test_a_value_without_its_type_is_told(
    spark: SparkSession, namespace: Namespace, columns: str, texts: list[str]
) -> None:
    namespace.bus.create_queue("orders")
    frame = spark.sql(f"SELECT 'm-1' AS message_id, 'x' AS body, {columns}")
    told = refusal(namespace, frame, entity="orders")
    assert [text for text in texts if text not in told] == []
    assert namespace.peek("orders") == []


def test_a_body_that_only_raw_has_needs_raw(
    spark: SparkSession, namespace: Namespace
) -> None:
    namespace.bus.create_queue("sent")
    namespace.bus.create_queue("copied")
    put(namespace, "sent", [SEQUENCE])
    read = namespace.read(spark, "sent", includeRaw="true")
    told = refusal(namespace, read.drop("raw"), entity="copied")
    assert "(message_id 'm-6')" in told and "read with includeRaw=true" in told
    write(namespace, read, entity="copied")
    assert seen(namespace, "copied") == seen(namespace, "sent")
