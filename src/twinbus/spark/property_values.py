"""Application properties of rows, encoded: from a map or a struct, each value in its
type.

    map<string,string>   strings, or the types that `application_property_types` names
    map<string,TYPE>     values of one Spark type
    struct<...>          each field is a property; a null field is none

Each Spark type has one AMQP type. Spark's decimals and dates have none: these are
refused when a write is planned.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

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
    StructType,
    TimestampType,
)

from twinbus.amqp.codec import encode
from twinbus.amqp.encoder import NULL
from twinbus.amqp.types import Byte, Float32, Int, Short, Timestamp
from twinbus.encoding.composing import binary_values, string_values
from twinbus.encoding.typed_texts import encoded_value
from twinbus.spark.row_errors import RowError, RowNames, utf8
from twinbus.spark.schema import PROPERTIES, PROPERTY_TYPES

if TYPE_CHECKING:
    import pyarrow as pa

_KINDS: Final[dict[type[DataType], Callable[..., object]]] = {
    BooleanType: bool,
    ByteType: Byte,
    ShortType: Short,
    IntegerType: Int,
    LongType: int,
    FloatType: Float32,
    DoubleType: float,
}

VALUE_TYPES: Final = (StringType, BinaryType, TimestampType, *_KINDS)
"""The Spark types that a property can have."""

_US_PER_MS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedProperties:
    """The properties of all rows, one after the other; by row, where they begin and
    end."""

    keys: list[bytes]
    values: list[bytes]
    bounds: list[tuple[int, int]]


def encoded_properties(
    column: "pa.Array",
    kind: DataType,
    types: "pa.Array | None",
    names: RowNames,
    whole: Collection[int] = (),
) -> EncodedProperties:
    """Of rows in `whole`, the types are not used. Raises RowError."""
    if isinstance(kind, StructType):
        return _of_structs(column, kind)
    assert isinstance(kind, MapType)
    found = EncodedProperties(
        keys=[key or b"" for key in utf8(column.keys, PROPERTIES)],
        values=_values(column.items, kind.valueType, PROPERTIES),
        bounds=_bounds(column),
    )
    if types is not None and types.null_count < len(types):
        texts = utf8(column.items, PROPERTIES)
        _give_types(found, texts, types, names, whole)
    return found


def _bounds(maps: "pa.Array") -> list[tuple[int, int]]:
    offsets = maps.offsets.to_pylist()
    return [
        (offsets[row], offsets[row + 1]) if there else (0, 0)
        for row, there in enumerate(maps.is_valid().to_pylist())
    ]


def _of_structs(column: "pa.Array", kind: StructType) -> EncodedProperties:
    keys = [field.name.encode() for field in kind.fields]
    columns = [
        _values(values, field.dataType, f"{PROPERTIES}.{field.name}")
        for values, field in zip(column.flatten(), kind.fields, strict=True)
    ]
    found = EncodedProperties(keys=[], values=[], bounds=[])
    for row in zip(*columns, strict=True):
        start = len(found.keys)
        for key, value in zip(keys, row, strict=True):
            if value != NULL:
                found.keys.append(key)
                found.values.append(value)
        found.bounds.append((start, len(found.keys)))
    # A struct without fields has no columns that could say how many rows there are.
    return (
        found
        if keys
        else EncodedProperties(keys=[], values=[], bounds=[(0, 0)] * len(column))
    )


def _values(column: "pa.Array", kind: DataType, name: str) -> list[bytes]:
    if isinstance(kind, StringType):
        return string_values(utf8(column, name))
    if isinstance(kind, BinaryType):
        return binary_values(column.to_pylist())
    if isinstance(kind, TimestampType):
        return _timestamps(column, name)
    make = _KINDS[type(kind)]
    return [
        NULL if value is None else encode(make(value)) for value in column.to_pylist()
    ]


def _timestamps(column: "pa.Array", name: str) -> list[bytes]:
    import pyarrow as pa

    values: Sequence[int | None] = column.cast(pa.int64()).to_pylist()
    for value in values:
        if value is not None and value % _US_PER_MS:
            raise RowError(
                f"'{name}' has the timestamp {value} (microseconds since 1970); an "
                "AMQP timestamp has whole milliseconds. Cut it off with "
                "date_trunc('MILLISECOND', ...), or send it as a string."
            )
    return [
        NULL if value is None else encode(Timestamp(value // _US_PER_MS))
        for value in values
    ]


def _give_types(
    found: EncodedProperties,
    texts: "Sequence[bytes | None]",
    types: "pa.Array",
    names: RowNames,
    whole: Collection[int],
) -> None:
    """Encode again the values that have a type; a type without a value does no harm."""
    # Most values come again and again: booleans, small numbers.
    known: dict[tuple[bytes, bytes | None], bytes] = {}
    type_keys = utf8(types.keys, PROPERTY_TYPES)
    type_names = utf8(types.items, PROPERTY_TYPES)
    for row, (start, end) in enumerate(_bounds(types)):
        if start == end or row in whole:
            continue
        named = dict(zip(type_keys[start:end], type_names[start:end], strict=True))
        for at in range(*found.bounds[row]):
            type_name = named.get(found.keys[at])
            if type_name is not None:
                text = texts[at]
                value = known.get((type_name, text))
                if value is None:
                    value = _typed(found.keys[at], text, type_name.decode(), names, row)
                    known[type_name, text] = value
                found.values[at] = value


def _typed(
    key: bytes, text: bytes | None, type_name: str, names: RowNames, row: int
) -> bytes:
    shown = None if text is None else text.decode()
    try:
        return encoded_value(type_name, shown)
    except ValueError as error:
        value = "null" if shown is None else f"'{shown[:60]}'"
        raise RowError(
            f"In {names.of(row)}, the application property '{key.decode()[:60]}' is "
            f"{value}, and its type in '{PROPERTY_TYPES}' is '{type_name[:40]}': "
            f"{error}. Correct the value or the type, or remove the type to send a "
            "string."
        ) from None
