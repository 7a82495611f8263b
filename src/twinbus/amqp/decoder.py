"""Decoding of every AMQP 1.0 type (part 1 of the standard).

Input is not trusted: any bytes give a value or a DecodeError. A count must be covered
by bytes, so a small input cannot cause a large allocation. Nesting ends at
NESTING_LIMIT.
"""

import struct
from collections.abc import Callable
from typing import Final
from uuid import UUID

from twinbus.amqp.errors import DecodeError
from twinbus.amqp.types import (
    AmqpArray,
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

NESTING_LIMIT: Final = 64

# Elements such as `true` have no bytes in an array. So their count cannot be checked
# against the size, and has its own limit.
ZERO_WIDTH_ARRAY_LIMIT: Final = 16

# Python's hashes of texts and binaries are keyed with a secret, other hashes are not.
# So a peer could choose UUIDs or numbers that all collide in a dictionary, and each key
# would be compared with all before it. Numbers are fast to compare, and few of 64 bits
# share a hash; of UUIDs a peer can make any number.
MAP_NUMBER_KEYS: Final = 1_024
MAP_OTHER_KEYS: Final = 16
_OTHER_KEY_WEIGHT: Final = MAP_NUMBER_KEYS // MAP_OTHER_KEYS

# Number of bytes after a constructor, by its upper four bits.
WIDTHS: Final = (0, 0, 0, 0, 0, 1, 2, 4, 8, 16)


_U32: Final = struct.Struct(">I")
_F32: Final = struct.Struct(">f")
_F64: Final = struct.Struct(">d")


def decode(buf: bytes, at: int) -> tuple[object, int]:
    """Decode the value at `at`; return it and where the next one starts.

    Raises DecodeError.
    """
    return _decode(buf, at, 0)


def skip(buf: bytes, at: int) -> int:
    """Return where the value at `at` ends, without decoding it.

    Only sizes are read: a skipped value may still be invalid. Raises DecodeError if it
    does not end inside `buf`.
    """
    total = len(buf)
    wanted = 1
    while wanted > 0:
        if at >= total:
            raise DecodeError("a value ends beyond the buffer")
        code = buf[at]
        wanted -= 1
        if code == 0:
            # A descriptor and a value follow. They are counted instead of recursed
            # into, so that a chain of descriptors cannot exhaust the stack.
            at += 1
            wanted += 2
        else:
            at = _end_of(code, buf, at + 1)
    if at > total:
        raise DecodeError("a value ends beyond the buffer")
    return at


def has_more_values(buf: bytes, limit: int) -> bool:
    """Whether `buf`, a sequence of values, has more than `limit` of them, counting
    nested ones. The cost is bounded by the limit.

    Raises DecodeError if the values cannot be counted.
    """
    at = 0
    count = 0
    while at < len(buf):
        count += 1
        if count > limit:
            return True
        code = buf[at]
        if code == 0:
            # A descriptor and a value follow, and are counted.
            at += 1
        elif code < 0xC0:
            at = _end_of(code, buf, at + 1)
        else:
            items, start, end = _compound_header(code, buf, at + 1)
            if code < 0xE0:
                # Its elements come next.
                at = start
            else:
                at = end
                # Array elements have no constructors. Of compound elements only one
                # bound is known: each value has at least a byte.
                is_flat = start < end and 0 < buf[start] < 0xC0
                count += items if is_flat else end - start
    return count > limit


def field_offsets(buf: bytes, at: int) -> list[int]:
    """Offsets of the fields of the list at `at`, followed by the end of the list."""
    count, at, end = list_header(buf, at)
    offsets = [at]
    for _ in range(count):
        at = skip(buf, at)
        offsets.append(at)
    if at != end:
        raise DecodeError("a list's size does not match its fields")
    return offsets


def list_header(buf: bytes, at: int) -> tuple[int, int, int]:
    """Count, start of the first field and end of the list at `at`."""
    if at >= len(buf):
        raise DecodeError("a list was expected where the buffer ends")
    code = buf[at]
    if code == 0x45:
        return 0, at + 1, at + 1
    if code != 0xC0 and code != 0xD0:
        raise DecodeError(f"a list was expected, not constructor {code:#04x}")
    return _compound_header(code, buf, at + 1)


def _decode(buf: bytes, at: int, depth: int) -> tuple[object, int]:
    if at >= len(buf):
        raise DecodeError("a value was expected where the buffer ends")
    code = buf[at]
    if code != 0:
        return _decode_value(code, buf, at + 1, depth)
    if depth >= NESTING_LIMIT:
        raise DecodeError(f"values are nested deeper than {NESTING_LIMIT}")
    descriptor, at = _decode(buf, at + 1, depth + 1)
    value, at = _decode(buf, at, depth + 1)
    return Described(descriptor, value), at


def _decode_value(code: int, buf: bytes, at: int, depth: int) -> tuple[object, int]:
    """Decode the value after constructor `code`; also used for array elements."""
    if code < 0xA0:
        reader = _FIXED.get(code)
        if reader is None:
            raise DecodeError(f"unknown constructor {code:#04x}")
        end = at + WIDTHS[code >> 4]
        if end > len(buf):
            raise DecodeError("a value ends beyond the buffer")
        return reader(buf, at, end), end
    if code < 0xC0:
        return _decode_variable(code, buf, at)
    if depth >= NESTING_LIMIT:
        raise DecodeError(f"values are nested deeper than {NESTING_LIMIT}")
    if code == 0xC0 or code == 0xD0:
        return _decode_list(code, buf, at, depth)
    if code == 0xC1 or code == 0xD1:
        return _decode_map(code, buf, at, depth)
    if code == 0xE0 or code == 0xF0:
        return _decode_array(code, buf, at, depth)
    raise DecodeError(f"unknown constructor {code:#04x}")


def _decode_variable(code: int, buf: bytes, at: int) -> tuple[object, int]:
    end = _end_of(code, buf, at)
    if end > len(buf):
        raise DecodeError("a value ends beyond the buffer")
    data = buf[at + (1 if code < 0xB0 else 4) : end]
    kind = code & 0x0F
    try:
        if kind == 0:
            return data, end
        if kind == 1:
            return data.decode("utf-8"), end
        if kind == 3:
            return Symbol(data.decode("ascii")), end
    except UnicodeDecodeError:
        raise DecodeError("a text is not valid in its encoding") from None
    raise DecodeError(f"unknown constructor {code:#04x}")


def _compound_header(code: int, buf: bytes, at: int) -> tuple[int, int, int]:
    """Count, start of the first element and end of a list, map or array."""
    total = len(buf)
    if code & 0x10 == 0:
        if at + 2 > total:
            raise DecodeError("a compound value ends beyond the buffer")
        end = at + 1 + buf[at]
        count = buf[at + 1]
        start = at + 2
    else:
        if at + 8 > total:
            raise DecodeError("a compound value ends beyond the buffer")
        end = at + 4 + read_u32(buf, at)
        count = read_u32(buf, at + 4)
        start = at + 8
    if end > total or end < start:
        raise DecodeError("a compound value's size is wrong")
    if count > end - start and code < 0xE0:
        raise DecodeError("a compound value counts more elements than it has bytes")
    return count, start, end


def _decode_list(code: int, buf: bytes, at: int, depth: int) -> tuple[object, int]:
    count, at, end = _compound_header(code, buf, at)
    items: list[object] = []
    for _ in range(count):
        value, at = _decode(buf, at, depth + 1)
        items.append(value)
    if at != end:
        raise DecodeError("a list's size does not match its elements")
    return items, end


def _decode_map(code: int, buf: bytes, at: int, depth: int) -> tuple[object, int]:
    count, at, end = _compound_header(code, buf, at)
    if count % 2:
        raise DecodeError("a map has a key without a value")
    items: dict[object, object] = {}
    weight = 0
    for _ in range(count // 2):
        key, at = _decode(buf, at, depth + 1)
        if not isinstance(key, str | bytes):
            weight += 1 if isinstance(key, int | float) else _OTHER_KEY_WEIGHT
            if weight > MAP_NUMBER_KEYS:
                raise DecodeError(
                    f"a map has more than {MAP_NUMBER_KEYS} keys that are numbers, or "
                    f"{MAP_OTHER_KEYS} that are neither numbers, texts nor binaries"
                )
        value, at = _decode(buf, at, depth + 1)
        try:
            items[key] = value
        except TypeError:
            raise DecodeError("a map's key is a compound value") from None
    if at != end:
        raise DecodeError("a map's size does not match its elements")
    return items, end


def _decode_array(code: int, buf: bytes, at: int, depth: int) -> tuple[object, int]:
    count, at, end = _compound_header(code, buf, at)
    if at >= end:
        raise DecodeError("an array has no constructor")
    descriptor: object = None
    constructor = buf[at]
    if constructor == 0:
        descriptor, at = _decode(buf, at + 1, depth + 1)
        if at >= end:
            raise DecodeError("an array has no constructor")
        constructor = buf[at]
        if constructor == 0:
            raise DecodeError("an array's constructor has two descriptors")
    at += 1
    limit = ZERO_WIDTH_ARRAY_LIMIT if constructor >> 4 == 4 else end - at
    if count > limit:
        raise DecodeError("an array counts more elements than it has bytes")
    items: list[object] = []
    for _ in range(count):
        value, at = _decode_value(constructor, buf, at, depth + 1)
        items.append(value)
    if at != end:
        raise DecodeError("an array's size does not match its elements")
    return AmqpArray(constructor, items, descriptor), end


def _end_of(code: int, buf: bytes, at: int) -> int:
    """End of the value after its constructor `code`; `at` is the position after it."""
    kind = code >> 4
    if kind < 4:
        raise DecodeError(f"unknown constructor {code:#04x}")
    if kind < 0xA:
        return at + WIDTHS[kind]
    if kind & 1 == 0:
        if at >= len(buf):
            raise DecodeError("a value ends beyond the buffer")
        return at + 1 + buf[at]
    if at + 4 > len(buf):
        raise DecodeError("a value ends beyond the buffer")
    return at + 4 + read_u32(buf, at)


def read_u32(buf: bytes, at: int) -> int:
    value: int = _U32.unpack_from(buf, at)[0]
    return value


_Reader = Callable[[bytes, int, int], object]


def _unsigned(buf: bytes, at: int, end: int) -> int:
    return int.from_bytes(buf[at:end], "big")


def _signed(buf: bytes, at: int, end: int) -> int:
    return int.from_bytes(buf[at:end], "big", signed=True)


def _read_null(buf: bytes, at: int, end: int) -> object:
    return None


def _read_true(buf: bytes, at: int, end: int) -> object:
    return True


def _read_false(buf: bytes, at: int, end: int) -> object:
    return False


def _read_list0(buf: bytes, at: int, end: int) -> object:
    return []


def _read_bool(buf: bytes, at: int, end: int) -> object:
    if buf[at] > 1:
        raise DecodeError("a boolean is neither 0 nor 1")
    return buf[at] == 1


def _read_ubyte(buf: bytes, at: int, end: int) -> object:
    return UByte(buf[at])


def _read_byte(buf: bytes, at: int, end: int) -> object:
    return Byte(_signed(buf, at, end))


def _read_ushort(buf: bytes, at: int, end: int) -> object:
    return UShort(_unsigned(buf, at, end))


def _read_short(buf: bytes, at: int, end: int) -> object:
    return Short(_signed(buf, at, end))


def _read_uint(buf: bytes, at: int, end: int) -> object:
    return UInt(_unsigned(buf, at, end))


def _read_int(buf: bytes, at: int, end: int) -> object:
    return Int(_signed(buf, at, end))


def _read_ulong(buf: bytes, at: int, end: int) -> object:
    return ULong(_unsigned(buf, at, end))


def _read_long(buf: bytes, at: int, end: int) -> object:
    return _signed(buf, at, end)


def _read_timestamp(buf: bytes, at: int, end: int) -> object:
    return Timestamp(_signed(buf, at, end))


def _read_float(buf: bytes, at: int, end: int) -> object:
    return Float32(_F32.unpack_from(buf, at)[0])


def _read_double(buf: bytes, at: int, end: int) -> object:
    return _F64.unpack_from(buf, at)[0]


def _read_char(buf: bytes, at: int, end: int) -> object:
    try:
        return Char(buf[at:end].decode("utf-32-be"))
    except UnicodeDecodeError:
        raise DecodeError("a char is not a Unicode code point") from None


def _read_decimal32(buf: bytes, at: int, end: int) -> object:
    return Decimal32(buf[at:end])


def _read_decimal64(buf: bytes, at: int, end: int) -> object:
    return Decimal64(buf[at:end])


def _read_decimal128(buf: bytes, at: int, end: int) -> object:
    return Decimal128(buf[at:end])


def _read_uuid(buf: bytes, at: int, end: int) -> object:
    return UUID(bytes=buf[at:end])


_FIXED: Final[dict[int, _Reader]] = {
    0x40: _read_null,
    0x41: _read_true,
    0x42: _read_false,
    0x43: _read_uint,
    0x44: _read_ulong,
    0x45: _read_list0,
    0x50: _read_ubyte,
    0x51: _read_byte,
    0x52: _read_uint,
    0x53: _read_ulong,
    0x54: _read_int,
    0x55: _read_long,
    0x56: _read_bool,
    0x60: _read_ushort,
    0x61: _read_short,
    0x70: _read_uint,
    0x71: _read_int,
    0x72: _read_float,
    0x73: _read_char,
    0x74: _read_decimal32,
    0x80: _read_ulong,
    0x81: _read_long,
    0x82: _read_double,
    0x83: _read_timestamp,
    0x84: _read_decimal64,
    0x94: _read_decimal128,
    0x98: _read_uuid,
}
