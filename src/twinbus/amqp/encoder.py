"""Encoding of every AMQP 1.0 type (part 1 of the standard).

Values are encoded in their shortest form, descriptors as smallulong (00 53 xx), because
some clients read nothing else. A value that cannot be encoded is our own mistake:
LocalError.
"""

import struct
from collections.abc import Callable
from typing import Final
from uuid import UUID

from twinbus.amqp.decoder import NESTING_LIMIT, WIDTHS
from twinbus.amqp.errors import LocalError
from twinbus.amqp.types import (
    AmqpArray,
    Byte,
    Char,
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

NULL: Final = b"\x40"


_U32: Final = struct.Struct(">I")
_F32: Final = struct.Struct(">f")
_F64: Final = struct.Struct(">d")


def encode(value: object) -> bytes:
    """Encode a value in its shortest form. Raises LocalError."""
    return _encode(value, 0)


def _encode(value: object, depth: int) -> bytes:
    if depth > NESTING_LIMIT:
        raise LocalError(f"values are nested deeper than {NESTING_LIMIT}")
    writer = _SCALARS.get(type(value))
    if writer is not None:
        return writer(value)
    if isinstance(value, list):
        return _encode_compound(0xC0, [_encode(item, depth + 1) for item in value])
    if isinstance(value, dict):
        return _encode_map(value, depth)
    if isinstance(value, Described):
        descriptor = _encode(value.descriptor, depth + 1)
        return b"\x00" + descriptor + _encode(value.value, depth + 1)
    if isinstance(value, AmqpArray):
        return _encode_array(value, depth)
    raise LocalError(f"{type(value).__name__} is not an AMQP type")


def _encode_map(value: dict[object, object], depth: int) -> bytes:
    parts: list[bytes] = []
    for key, item in value.items():
        parts.append(_encode(key, depth + 1))
        parts.append(_encode(item, depth + 1))
    return _encode_compound(0xC1, parts)


def encode_list(fields: list[bytes]) -> bytes:
    """Encode a list of encoded fields."""
    return _encode_compound(0xC0, fields)


def _encode_compound(small_code: int, parts: list[bytes]) -> bytes:
    if not parts and small_code == 0xC0:
        return b"\x45"
    return _with_size(small_code, len(parts), b"".join(parts))


def _with_size(small_code: int, count: int, body: bytes) -> bytes:
    if len(body) < 255 and count < 256:
        return bytes((small_code, len(body) + 1, count)) + body
    header = bytes((small_code | 0x10,)) + _U32.pack(len(body) + 4) + _U32.pack(count)
    return header + body


def _encode_array(value: AmqpArray, depth: int) -> bytes:
    """Elements share the array's constructor, so each must have its form."""
    constructor = value.constructor
    parts = [_encode_element(constructor, item, depth) for item in value.items]
    head = bytes((constructor,))
    if value.descriptor is not None:
        head = b"\x00" + _encode(value.descriptor, depth + 1) + head
    return _with_size(0xE0, len(parts), head + b"".join(parts))


def _encode_element(constructor: int, item: object, depth: int) -> bytes:
    encoded = _encode(item, depth + 1)
    if constructor >> 4 == 4:
        raise LocalError("array elements need a constructor that has a width")
    if encoded[0] != constructor:
        encoded = _widen(constructor, encoded)
    return encoded[1:]


def _widen(constructor: int, encoded: bytes) -> bytes:
    """The same value in the form of `constructor`."""
    code = encoded[0]
    target = bytes((constructor,))
    width = WIDTHS[constructor >> 4] if constructor < 0xA0 else 0
    if constructor == 0x56 and code in (0x41, 0x42):
        return target + bytes((code == 0x41,))
    if _UNSIGNED_FORMS.get(code) == constructor:
        return target + encoded[1:].rjust(width, b"\x00")
    if constructor in (0x52, 0x53) and code == constructor - 0x0F:
        return target + b"\x00"
    if (code, constructor) in ((0x54, 0x71), (0x55, 0x81)):
        fill = b"\xff" if encoded[1] & 0x80 else b"\x00"
        return target + encoded[1:].rjust(width, fill)
    if 0xA0 <= code and code | 0x10 == constructor:
        return _widen_sized(target, encoded)
    if code == 0x45 and constructor in (0xC0, 0xD0):
        return _with_size(0xC0, 0, b"") if constructor == 0xC0 else _EMPTY_LIST32
    raise LocalError(
        f"an element with constructor {code:#04x} does not fit"
        f" an array of {constructor:#04x}"
    )


def _widen_sized(target: bytes, encoded: bytes) -> bytes:
    if encoded[0] < 0xC0:
        return target + _U32.pack(encoded[1]) + encoded[2:]
    count = _U32.pack(encoded[2])
    return target + _U32.pack(encoded[1] + 3) + count + encoded[3:]


_EMPTY_LIST32: Final = b"\xd0\x00\x00\x00\x04\x00\x00\x00\x00"

# Short forms of unsigned integers and the wide constructor of the same type.
_UNSIGNED_FORMS: Final = {0x43: 0x70, 0x52: 0x70, 0x44: 0x80, 0x53: 0x80}

_Writer = Callable[[object], bytes]


def _fixed(code: int, value: int, width: int, signed: bool) -> bytes:
    try:
        return bytes((code,)) + value.to_bytes(width, "big", signed=signed)
    except OverflowError:
        raise LocalError(f"{value} does not fit {width} bytes") from None


def _sized(small_code: int, data: bytes) -> bytes:
    if len(data) < 256:
        return bytes((small_code, len(data))) + data
    return bytes((small_code | 0x10,)) + _U32.pack(len(data)) + data


def _write_none(value: object) -> bytes:
    return NULL


def _write_bool(value: object) -> bytes:
    return b"\x41" if value else b"\x42"


def _write_ubyte(value: object) -> bytes:
    assert isinstance(value, int)
    return _fixed(0x50, value, 1, False)


def _write_byte(value: object) -> bytes:
    assert isinstance(value, int)
    return _fixed(0x51, value, 1, True)


def _write_ushort(value: object) -> bytes:
    assert isinstance(value, int)
    return _fixed(0x60, value, 2, False)


def _write_short(value: object) -> bytes:
    assert isinstance(value, int)
    return _fixed(0x61, value, 2, True)


def encode_uint(value: int) -> bytes:
    if value == 0:
        return b"\x43"
    if 0 < value < 256:
        return bytes((0x52, value))
    return _fixed(0x70, value, 4, False)


def _write_uint(value: object) -> bytes:
    assert isinstance(value, int)
    return encode_uint(value)


def _write_ulong(value: object) -> bytes:
    assert isinstance(value, int)
    if value == 0:
        return b"\x44"
    if 0 < value < 256:
        return bytes((0x53, value))
    return _fixed(0x80, value, 8, False)


def _write_int(value: object) -> bytes:
    assert isinstance(value, int)
    small = -128 <= value < 128
    return _fixed(0x54, value, 1, True) if small else _fixed(0x71, value, 4, True)


def _write_long(value: object) -> bytes:
    assert isinstance(value, int)
    small = -128 <= value < 128
    return _fixed(0x55, value, 1, True) if small else _fixed(0x81, value, 8, True)


def _write_timestamp(value: object) -> bytes:
    assert isinstance(value, int)
    return _fixed(0x83, value, 8, True)


def _write_float32(value: object) -> bytes:
    assert isinstance(value, float)
    try:
        return b"\x72" + _F32.pack(value)
    except OverflowError:
        raise LocalError(f"{value} does not fit four bytes") from None


def _write_double(value: object) -> bytes:
    assert isinstance(value, float)
    return b"\x82" + _F64.pack(value)


def _write_char(value: object) -> bytes:
    assert isinstance(value, str)
    data = _text(value, "utf-32-be")
    if len(data) != 4:
        raise LocalError("a char is exactly one code point")
    return b"\x73" + data


def _write_decimal32(value: object) -> bytes:
    assert isinstance(value, bytes)
    return b"\x74" + _exactly(value, 4)


def _write_decimal64(value: object) -> bytes:
    assert isinstance(value, bytes)
    return b"\x84" + _exactly(value, 8)


def _write_decimal128(value: object) -> bytes:
    assert isinstance(value, bytes)
    return b"\x94" + _exactly(value, 16)


def _exactly(data: bytes, width: int) -> bytes:
    if len(data) != width:
        raise LocalError(f"a decimal of {width} bytes has {len(data)}")
    return bytes(data)


def _write_uuid(value: object) -> bytes:
    assert isinstance(value, UUID)
    return b"\x98" + value.bytes


def _write_binary(value: object) -> bytes:
    assert isinstance(value, bytes)
    return _sized(0xA0, value)


def _write_string(value: object) -> bytes:
    assert isinstance(value, str)
    return _sized(0xA1, _text(value, "utf-8"))


def _write_symbol(value: object) -> bytes:
    assert isinstance(value, str)
    return _sized(0xA3, _text(value, "ascii"))


def _text(value: str, encoding: str) -> bytes:
    try:
        return value.encode(encoding)
    except UnicodeEncodeError:
        raise LocalError(f"{value!r} cannot be encoded as {encoding}") from None


def _write_encoded(value: object) -> bytes:
    assert isinstance(value, bytes)
    return bytes(value)


_SCALARS: Final[dict[type, _Writer]] = {
    type(None): _write_none,
    bool: _write_bool,
    int: _write_long,
    UByte: _write_ubyte,
    Byte: _write_byte,
    UShort: _write_ushort,
    Short: _write_short,
    UInt: _write_uint,
    Int: _write_int,
    ULong: _write_ulong,
    Timestamp: _write_timestamp,
    Float32: _write_float32,
    float: _write_double,
    Char: _write_char,
    Decimal32: _write_decimal32,
    Decimal64: _write_decimal64,
    Decimal128: _write_decimal128,
    UUID: _write_uuid,
    bytes: _write_binary,
    str: _write_string,
    Symbol: _write_symbol,
    Encoded: _write_encoded,
}
