"""One codec for all composite types: described lists with named fields.

A composite is a frozen dataclass with the decorator `composite`, which has the
descriptor and the wire type of every field, in the order of the standard. Encoding
wraps each field in its wire type; decoding checks types and sets defaults. It is used
for everything that is not on the path of each message.

Trailing nulls are left out, unless a composite `keeps_nulls`. All frames and errors
keep them, because Python's client up to 7.14 reads their fields at fixed positions.
"""

from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, Final, NamedTuple, TypeVar

from twinbus.amqp.codec import decode, encode
from twinbus.amqp.errors import DecodeError, LocalError
from twinbus.amqp.types import (
    AmqpArray,
    Described,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)

T = TypeVar("T")


class FieldType(NamedTuple):
    """How a field is converted to and from its wire type."""

    name: str
    to_wire: Callable[[Any], object]
    from_wire: Callable[[Any], object]


class Layout(NamedTuple):
    """What the decorator registered for one composite class."""

    code: int
    make: Callable[..., object]
    names: tuple[str, ...]
    types: tuple[FieldType, ...]
    required: frozenset[str]
    keeps_nulls: bool


_BY_CODE: Final[dict[int, Layout]] = {}
_BY_CLASS: Final[dict[type, Layout]] = {}
_CODES: Final[dict[str, int]] = {}


def composite(
    number: int, symbol: str, *, keeps_nulls: bool = False, **types: FieldType
) -> Callable[[type[T]], type[T]]:
    """Register a dataclass as the composite type with this descriptor."""

    def register(cls: type[T]) -> type[T]:
        required = frozenset(
            field.name
            for field in fields(cls)  # type: ignore[arg-type]
            if field.default is MISSING and field.default_factory is MISSING
        )
        kinds = tuple(types.values())
        layout = Layout(number, cls, tuple(types), kinds, required, keeps_nulls)
        _BY_CODE[number] = _BY_CLASS[cls] = layout
        _CODES[symbol] = number
        return cls

    return register


def descriptor_code(descriptor: object) -> int:
    """The code of a descriptor, which may be a number or a symbol; -1: unknown."""
    if isinstance(descriptor, int):
        return descriptor
    if isinstance(descriptor, Symbol):
        return _CODES.get(descriptor, -1)
    return -1


def encode_composite(value: object) -> bytes:
    """Encode an instance of a registered class."""
    return encode(to_described(value))


def to_described(value: object) -> Described:
    layout = _BY_CLASS[type(value)]
    items: list[object] = []
    for name, kind in zip(layout.names, layout.types, strict=True):
        field = getattr(value, name)
        items.append(None if field is None else kind.to_wire(field))
    if not layout.keeps_nulls:
        while items and items[-1] is None:
            items.pop()
    return Described(ULong(layout.code), items)


def decode_composite(buf: bytes, at: int) -> tuple[object, int]:
    """Decode the value at `at`, as an object if its descriptor is registered."""
    value, at = decode(buf, at)
    return from_described(value), at


def from_described(value: object) -> object:
    """Convert a described list to its object; other values stay unchanged."""
    if not isinstance(value, Described):
        return value
    layout = _BY_CODE.get(descriptor_code(value.descriptor))
    if layout is None:
        return value
    if not isinstance(value.value, list):
        raise DecodeError(f"descriptor {layout.code:#04x} needs a list")
    return from_fields(layout, value.value)


def from_fields(layout: Layout, items: list[object]) -> object:
    if len(items) > len(layout.names):
        raise DecodeError(f"descriptor {layout.code:#04x} has too many fields")
    given: dict[str, object] = {}
    for name, kind, item in zip(layout.names, layout.types, items, strict=False):
        if item is not None:
            try:
                given[name] = kind.from_wire(item)
            except (TypeError, ValueError):
                raise DecodeError(f"field {name} is not a {kind.name}") from None
    for name in layout.required:
        if name not in given:
            raise DecodeError(f"mandatory field {name} is missing")
    return layout.make(**given)


def _integer(limit: int) -> Callable[[Any], object]:
    def check(value: Any) -> object:
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError
        if not 0 <= value < limit:
            raise ValueError
        return int(value)

    return check


def _instance(*types: type) -> Callable[[Any], object]:
    def check(value: Any) -> object:
        if not isinstance(value, types):
            raise TypeError
        return value

    return check


def _text(value: Any) -> object:
    if not isinstance(value, str):
        raise TypeError
    return str(value)


def _timestamp(value: Any) -> object:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return Timestamp(value)


def _symbols_to_wire(values: Any) -> object:
    """`multiple="true"`: always an array, since every client reads arrays."""
    symbols: list[object] = [Symbol(value) for value in values]
    wide = any(len(str(symbol)) > 255 for symbol in symbols)
    return AmqpArray(0xB3 if wide else 0xA3, symbols)


def _symbols_from_wire(value: Any) -> object:
    items = value.items if isinstance(value, AmqpArray) else value
    if isinstance(items, str):
        items = [items]
    if not isinstance(items, list) or not all(isinstance(i, str) for i in items):
        raise TypeError
    return tuple(str(item) for item in items)


def symbol_keys(value: Any) -> object:
    """A map with text keys made symbols, as annotations and properties need."""
    return {
        Symbol(key) if type(key) is str else key: item for key, item in value.items()
    }


def _message_id(value: Any) -> object:
    return ULong(value) if type(value) is int else value


def nested_to_wire(value: Any) -> object:
    return to_described(value) if type(value) in _BY_CLASS else value


def _same(value: Any) -> object:
    return value


def _bytes(value: Any) -> object:
    if not isinstance(value, bytes):
        raise LocalError("binary was expected")
    return value


BOOLEAN: Final = FieldType("boolean", bool, _instance(bool))
UBYTE: Final = FieldType("ubyte", UByte, _integer(1 << 8))
USHORT: Final = FieldType("ushort", UShort, _integer(1 << 16))
UINT: Final = FieldType("uint", UInt, _integer(1 << 32))
ULONG: Final = FieldType("ulong", ULong, _integer(1 << 64))
TIMESTAMP: Final = FieldType("timestamp", Timestamp, _timestamp)
STRING: Final = FieldType("string", str, _text)
SYMBOL: Final = FieldType("symbol", Symbol, _text)
SYMBOLS: Final = FieldType("symbols", _symbols_to_wire, _symbols_from_wire)
BINARY: Final = FieldType("binary", _bytes, _instance(bytes))
MAP: Final = FieldType("map", _same, _instance(dict))
FIELDS: Final = FieldType("fields", symbol_keys, _instance(dict))
MESSAGE_ID: Final = FieldType("message-id", _message_id, _same)
COMPOSITE: Final = FieldType("composite", nested_to_wire, from_described)
ANY: Final = FieldType("any", _same, _same)
