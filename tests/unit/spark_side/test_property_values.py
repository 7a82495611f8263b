"""Application properties of rows: each value in the type that it has."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from twinbus.amqp.codec import decode
from twinbus.amqp.types import Byte, Float32, Int, Short, Timestamp, UInt
from twinbus.spark.property_values import VALUE_TYPES, encoded_properties
from twinbus.spark.row_errors import RowError, RowNames

TEXTS = MapType(StringType(), StringType())
NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
NOON_MS = 1_794_916_800_000


def column(kind: DataType, rows: list[Any]) -> pa.Array:
    return pa.array(rows, to_arrow_type(kind, timezone="UTC"))


def names(count: int) -> RowNames:
    ids = pa.array([f"m-{row}" for row in range(count)])
    return RowNames(pa.record_batch([ids], names=["message_id"]), {"message_id": 0})


def found(
    kind: DataType, rows: list[Any], types: list[Any] | None = None
) -> list[dict[str, object]]:
    """The properties of each row, decoded."""
    given = None if types is None else column(TEXTS, types)
    encoded = encoded_properties(column(kind, rows), kind, given, names(len(rows)))
    return [
        {
            encoded.keys[at].decode(): decode(encoded.values[at], 0)[0]
            for at in range(start, end)
        }
        for start, end in encoded.bounds
    ]


def same(left: object, right: object) -> bool:
    return left == right and type(left) is type(right)


def test_texts_are_strings() -> None:
    rows = [[("a", "1"), ("b", None)], None, [], [("c", "")]]
    assert found(TEXTS, rows) == [{"a": "1", "b": None}, {}, {}, {"c": ""}]


def test_texts_with_types_are_of_these_types() -> None:
    rows = [[("n", "7"), ("s", "7")], [("n", "7")], [("n", None)], [("m", "x")]]
    types = [[("n", "uint"), ("gone", "long")], None, [("n", "long")], []]
    first, second, third, fourth = found(TEXTS, rows, types)
    assert same(first["n"], UInt(7)) and same(first["s"], "7")
    assert same(second["n"], "7")
    assert (third, fourth) == ({"n": None}, {"m": "x"})


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (StringType(), "x", "x"),
        (BinaryType(), b"\x00", b"\x00"),
        (BooleanType(), True, True),
        (ByteType(), -1, Byte(-1)),
        (ShortType(), 300, Short(300)),
        (IntegerType(), 7, Int(7)),
        (LongType(), 7, 7),
        (FloatType(), 0.5, Float32(0.5)),
        (DoubleType(), 0.1, 0.1),
        (TimestampType(), NOON, Timestamp(NOON_MS)),
    ],
)
def test_each_spark_type_has_its_amqp_type(
    kind: DataType, value: object, expected: object
) -> None:
    [in_map, nothing] = found(
        MapType(StringType(), kind), [[("p", value)], [("p", None)]]
    )
    assert same(in_map["p"], expected)
    assert nothing == {"p": None}
    struct = StructType([StructField("p", kind)])
    [in_struct, without, null] = found(struct, [{"p": value}, {"p": None}, None])
    assert same(in_struct["p"], expected)
    # A field of a struct cannot be left out otherwise.
    assert (without, null) == ({}, {})


def test_a_struct_has_values_of_many_types() -> None:
    kinds = [kind() for kind in VALUE_TYPES]
    struct = StructType([StructField(kind.simpleString(), kind) for kind in kinds])
    values = ["x", b"b", NOON, True, 1, 2, 3, 4, 0.5, 0.25]
    row = {kind.simpleString(): v for kind, v in zip(kinds, values, strict=True)}
    [properties] = found(struct, [row])
    assert list(properties) == struct.names
    assert found(StructType([]), [{}, {}]) == [{}, {}]


def test_rows_of_a_slice_keep_their_properties() -> None:
    """Spark may pass parts of larger arrays."""
    rows = [[("a", str(row))] * 1 for row in range(6)]
    whole = column(TEXTS, rows)
    types = column(TEXTS, [[("a", "long")]] * 6)
    part = encoded_properties(whole.slice(2, 3), TEXTS, types.slice(2, 3), names(3))
    values = [decode(part.values[start], 0)[0] for start, _ in part.bounds]
    assert values == [2, 3, 4]


def test_a_value_that_is_not_of_its_type_is_told() -> None:
    rows = [[("n", "7")], [("n", "seven")]]
    types = [[("n", "long")]] * 2
    with pytest.raises(RowError) as refused:
        found(TEXTS, rows, types)
    text = str(refused.value)
    assert "row 2 of 2 of its batch (message_id 'm-1')" in text
    assert "the application property 'n' is 'seven'" in text
    assert "'application_property_types' is 'long': it must be a whole number" in text
    assert "remove the type to send a string" in text


def test_parts_of_a_millisecond_are_refused() -> None:
    kind = MapType(StringType(), TimestampType())
    with pytest.raises(RowError, match="date_trunc"):
        found(kind, [[("at", NOON.replace(microsecond=1))]])
