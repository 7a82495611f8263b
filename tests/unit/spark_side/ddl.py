"""Schemas as texts, because Spark's own parser of them needs a session."""

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_TYPES: dict[str, DataType] = {
    kind.simpleString(): kind
    for kind in (
        *(BinaryType(), IntegerType(), LongType(), StringType(), TimestampType()),
        ArrayType(ByteType()),
        MapType(StringType(), StringType()),
        MapType(IntegerType(), StringType()),
    )
}


def schema_of(text: str) -> StructType:
    """`NAME TYPE`, separated by a comma and a blank."""
    fields = [field.split(" ", 1) for field in text.split(", ")]
    return StructType([StructField(name, _TYPES[kind]) for name, kind in fields])
