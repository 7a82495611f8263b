"""Converts between AMQP values and the values of rules.

Values that rules have no type for (lists, maps, decimals) stay encoded: they exist,
compare with nothing, and can be copied. .NET's types of durations, times and addresses
are described values with a name (`com.microsoft:timespan` and so on).
"""

from collections.abc import Callable
from typing import Final, final
from uuid import UUID

from twinbus.amqp.codec import decode
from twinbus.amqp.errors import DecodeError
from twinbus.amqp.types import (
    Byte,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Encoded,
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
from twinbus.rules.typed_value import TypedValue, typed, typed_value
from twinbus.rules.values import Duration, Instant

_TIMESPAN: Final = "com.microsoft:timespan"
_DATETIME_OFFSET: Final = "com.microsoft:datetime-offset"
_URI: Final = "com.microsoft:uri"

_TICKS_PER_MS: Final = 10_000
_EPOCH_MS: Final = 62_135_596_800_000
"""From the year 1, where .NET's times begin, to 1970."""

_HIGHEST_LONG: Final = (1 << 63) - 1


@final
class Opaque:
    """A value that rules can only copy."""

    def __init__(self, encoded: bytes) -> None:
        self.encoded: bytes = encoded


def rule_value(raw: bytes, at: int, end: int) -> object:
    """The encoded value from `at` to `end`, as a value of rules."""
    try:
        value = plain_value(decode(raw, at)[0])
    except DecodeError:
        # Its size was checked when the message arrived; it is copied as it is.
        return Opaque(raw[at:end])
    return Opaque(raw[at:end]) if value is _OTHER else value


_OTHER: Final = Described(None, None)


def plain_value(value: object) -> object:
    """A decoded value without its AMQP type; `_OTHER` if rules have no type for it."""
    if value is None or isinstance(value, bool | UUID):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Timestamp):
        return Instant(int(value))
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Decimal32 | Decimal64 | Decimal128):
        return _OTHER
    if isinstance(value, bytes):
        return value
    if isinstance(value, Described):
        return _described(value)
    return _OTHER


def _described(value: Described) -> object:
    content = value.value
    if isinstance(content, int):
        if value.descriptor == _TIMESPAN:
            return Duration(content // _TICKS_PER_MS)
        if value.descriptor == _DATETIME_OFFSET:
            return Instant(content // _TICKS_PER_MS - _EPOCH_MS)
    if isinstance(content, str) and value.descriptor == _URI:
        return str(content)
    return _OTHER


def amqp_value(value: object, existing: object) -> object:
    """The AMQP value for a rule's value. It gets the type of the value that it
    replaces, if that type can hold it."""
    if isinstance(value, Opaque):
        return Encoded(value.encoded)
    if isinstance(value, Instant):
        return Timestamp(value.at)
    if isinstance(value, Duration):
        return Described(Symbol(_TIMESPAN), value.ms * _TICKS_PER_MS)
    if isinstance(value, str):
        if isinstance(existing, Symbol) and value.isascii():
            return Symbol(value)
        return value
    if isinstance(value, float):
        # Two statements, because mypyc would infer float for one expression.
        if _fits_float(value, existing):
            return Float32(value)
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return _integer(value, existing)
    return value


def _fits_float(value: float, existing: object) -> bool:
    # The range of four bytes ends at 2 ** 128; NaN and infinities fit too.
    return isinstance(existing, Float32) and not (1 << 128) <= abs(value) < float("inf")


def _integer(value: int, existing: object) -> object:
    width = _INTEGERS.get(type(existing))
    if width is not None:
        kind, lowest, highest = width
        if lowest <= value <= highest:
            return kind(value)
    if value > _HIGHEST_LONG:
        return ULong(value)
    return value


_INTEGERS: Final[dict[type, tuple[Callable[[int], object], int, int]]] = {
    UByte: (UByte, 0, (1 << 8) - 1),
    UShort: (UShort, 0, (1 << 16) - 1),
    UInt: (UInt, 0, (1 << 32) - 1),
    ULong: (ULong, 0, (1 << 64) - 1),
    Byte: (Byte, -(1 << 7), (1 << 7) - 1),
    Short: (Short, -(1 << 15), (1 << 15) - 1),
    Int: (Int, -(1 << 31), (1 << 31) - 1),
}

_TYPE_NAMES: Final[dict[type, str]] = {
    UByte: "unsignedByte",
    UShort: "unsignedShort",
    UInt: "unsignedInt",
    ULong: "unsignedLong",
    Byte: "byte",
    Short: "short",
    Int: "int",
}


def typed_of_amqp(value: object) -> TypedValue:
    """A decoded AMQP value as a typed value of a rule. Raises ArgumentError."""
    name = _TYPE_NAMES.get(type(value))
    if name is not None:
        return typed_value(name, str(value))
    return typed(plain_value(value))


def amqp_of_typed(value: TypedValue) -> object:
    """The AMQP value for a typed value of a rule."""
    plain = value.value
    for type_class, name in _TYPE_NAMES.items():
        if name == value.type_name and isinstance(plain, int):
            return type_class(plain)
    if value.type_name == "float" and isinstance(plain, float):
        return Float32(plain)
    return amqp_value(plain, None)
