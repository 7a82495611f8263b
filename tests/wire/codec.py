"""The AMQP 1.0 type system of the wire tests.

It shares nothing with `twinbus.amqp`, so that a mistake there is not repeated here.
Every decoded number keeps its AMQP type as a class and every array its element
constructor, so that a case can distinguish an `int` from a `long`. Encoding always uses
the wide form, except for small descriptors, which have to be `00 53 xx`.
"""

import struct
import uuid
from typing import Any, NamedTuple


class Ubyte(int):
    """AMQP ubyte."""


class Ushort(int):
    """AMQP ushort."""


class Uint(int):
    """AMQP uint."""


class Ulong(int):
    """AMQP ulong."""


class Byte(int):
    """AMQP byte."""


class Short(int):
    """AMQP short."""


class Int(int):
    """AMQP int."""


class Long(int):
    """AMQP long."""


class Timestamp(int):
    """AMQP timestamp: milliseconds of the epoch."""


class Float(float):
    """AMQP float."""


class Double(float):
    """AMQP double."""


class Char(str):
    """AMQP char."""


class Symbol(str):
    """AMQP symbol."""


class Array(list[Any]):
    """AMQP array; `constructor` is the format code of its elements."""

    def __init__(self, constructor: int, values: list[Any]) -> None:
        super().__init__(values)
        self.constructor = constructor


class Described(NamedTuple):
    """A described value."""

    descriptor: Any
    value: Any


class Opaque(NamedTuple):
    """A primitive that is kept as bytes: decimals, which no client here reads."""

    constructor: int
    content: bytes


# Format code: class and struct format, for numbers of a fixed width.
_NUMBERS: dict[int, tuple[type, str]] = {
    0x50: (Ubyte, ">B"),
    0x60: (Ushort, ">H"),
    0x70: (Uint, ">I"),
    0x52: (Uint, ">B"),
    0x80: (Ulong, ">Q"),
    0x53: (Ulong, ">B"),
    0x51: (Byte, ">b"),
    0x61: (Short, ">h"),
    0x71: (Int, ">i"),
    0x54: (Int, ">b"),
    0x81: (Long, ">q"),
    0x55: (Long, ">b"),
    0x83: (Timestamp, ">q"),
    0x72: (Float, ">f"),
    0x82: (Double, ">d"),
}
_WIDE = {
    kind: (code, form)
    for code, (kind, form) in _NUMBERS.items()
    if code not in (0x52, 0x53, 0x54, 0x55)
}
_CONSTANTS = {0x40: None, 0x41: True, 0x42: False, 0x43: Uint(0), 0x44: Ulong(0)}
_DECIMAL_BYTES = {0x74: 4, 0x84: 8, 0x94: 16}


def encode(value: Any) -> bytes:
    """The bytes of a value, by its class."""
    if value is None:
        return b"\x40"
    if isinstance(value, bool):
        return b"\x41" if value else b"\x42"
    if isinstance(value, Described):
        return b"\x00" + encode(value.descriptor) + encode(value.value)
    if isinstance(value, Ulong) and value < 256:
        return b"\x53" + bytes([value])
    if type(value) in _WIDE:
        code, form = _WIDE[type(value)]
        return bytes([code]) + struct.pack(form, value)
    return _encode_variable(value)


def _encode_variable(value: Any) -> bytes:
    if isinstance(value, Opaque):
        return bytes([value.constructor]) + value.content
    if isinstance(value, uuid.UUID):
        return b"\x98" + value.bytes
    if isinstance(value, Char):
        return b"\x73" + struct.pack(">I", ord(value))
    if isinstance(value, Array):
        return _encode_array(value)
    if isinstance(value, list):
        items = b"".join(map(encode, value))
        return b"\x45" if not value else _compound(0xD0, len(value), items)
    if isinstance(value, dict):
        items = b"".join(encode(key) + encode(item) for key, item in value.items())
        return _compound(0xD1, 2 * len(value), items)
    return _encode_text(value)


def _encode_text(value: Any) -> bytes:
    if isinstance(value, Symbol):
        code, content = 0xA3, value.encode("ascii")
    elif isinstance(value, str):
        code, content = 0xA1, value.encode()
    elif isinstance(value, bytes):
        code, content = 0xA0, value
    else:
        raise TypeError(f"say which AMQP type: {value!r}")
    if len(content) < 256:
        return bytes([code, len(content)]) + content
    return bytes([code + 0x10]) + struct.pack(">I", len(content)) + content


def _encode_array(value: Array) -> bytes:
    """An array of fixed-width elements or of short strings."""
    items = b"".join(encode(item)[1:] for item in value)
    content = bytes([value.constructor]) + items
    head = struct.pack(">II", len(content) + 4, len(value))
    return b"\xf0" + head + content


def _compound(code: int, count: int, items: bytes) -> bytes:
    return bytes([code]) + struct.pack(">II", len(items) + 4, count) + items


class Reader:
    """Decodes one value after the other from a buffer."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    @property
    def at_end(self) -> bool:
        """Whether all was read."""
        return self.position >= len(self._data)

    def rest(self) -> bytes:
        """What was not read."""
        return self._data[self.position :]

    def read(self) -> Any:
        """The next value."""
        code = self._take(1)[0]
        if code == 0x00:
            return Described(self.read(), self.read())
        return self._read_as(code)

    def _take(self, count: int) -> bytes:
        taken = self._data[self.position : self.position + count]
        assert len(taken) == count, "value ends beyond the buffer"
        self.position += count
        return taken

    def _number(self, form: str) -> int:
        (number,) = struct.unpack(form, self._take(struct.calcsize(form)))
        return int(number)

    def _read_as(self, code: int) -> Any:
        if code in _CONSTANTS:
            return _CONSTANTS[code]
        if code in _NUMBERS:
            kind, form = _NUMBERS[code]
            return kind(struct.unpack(form, self._take(struct.calcsize(form)))[0])
        if code == 0x56:
            return self._take(1) == b"\x01"
        if code == 0x98:
            return uuid.UUID(bytes=self._take(16))
        if code == 0x73:
            return Char(chr(self._number(">I")))
        if code in _DECIMAL_BYTES:
            return Opaque(code, self._take(_DECIMAL_BYTES[code]))
        return self._read_variable(code)

    def _read_variable(self, code: int) -> Any:
        if code == 0x45:
            return []
        width = ">B" if code >> 4 in (0xA, 0xC, 0xE) else ">I"
        if code >> 4 in (0xA, 0xB):
            return _text(code & 0x0F, self._take(self._number(width)))
        size = self._number(width)
        end = self.position + size
        value = self._read_items(code, self._number(width))
        assert self.position == end, "size of a compound value is wrong"
        return value

    def _read_items(self, code: int, count: int) -> Any:
        kind = code & 0x0F
        if code >> 4 in (0xE, 0xF):
            constructor = self._take(1)[0]
            return Array(
                constructor, [self._read_as(constructor) for _ in range(count)]
            )
        items = [self.read() for _ in range(count)]
        if kind == 0:
            return items
        return dict(zip(items[::2], items[1::2], strict=True))


def _text(kind: int, content: bytes) -> Any:
    if kind == 0:
        return content
    return content.decode() if kind == 1 else Symbol(content.decode("ascii"))


def decode(data: bytes) -> Any:
    """The one value that the bytes hold."""
    reader = Reader(data)
    value = reader.read()
    assert reader.at_end, "bytes after the value"
    return value
