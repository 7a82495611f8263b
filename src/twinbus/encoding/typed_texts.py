"""AMQP values as texts, and back.

A text and the name of its type give back the same value. A string needs no name, and
null has no text. A value that a text does not give back (described values, lists, maps,
arrays, a NaN with a payload, a malformed string) has as its type `amqp:` and its bytes
in base64; its text is only for people to read.

    long     7                    uuid       00112233-4455-6677-8899-aabbccddeeff
    boolean  true                 binary     AP8=  (base64)
    double   0.5, inf, nan        timestamp  1700000000000  (milliseconds)
"""

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from json import dumps
from struct import pack
from typing import Final
from uuid import UUID

from twinbus.amqp.codec import decode, encode, skip
from twinbus.amqp.encoder import NULL
from twinbus.amqp.errors import DecodeError, LocalError
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

OPAQUE: Final = "amqp:"
"""What the type of a value begins with that its text does not give back."""

_NULL: Final = 0x40
_STRINGS: Final = (0xA1, 0xB1)

_NAMES: Final[dict[int, str]] = {
    **dict.fromkeys((0x41, 0x42, 0x56), "boolean"),
    0x50: "ubyte",
    0x60: "ushort",
    **dict.fromkeys((0x43, 0x52, 0x70), "uint"),
    **dict.fromkeys((0x44, 0x53, 0x80), "ulong"),
    0x51: "byte",
    0x61: "short",
    **dict.fromkeys((0x54, 0x71), "int"),
    **dict.fromkeys((0x55, 0x81), "long"),
    0x72: "float",
    0x82: "double",
    0x73: "char",
    0x83: "timestamp",
    0x98: "uuid",
    **dict.fromkeys((0xA0, 0xB0), "binary"),
    **dict.fromkeys((0xA3, 0xB3), "symbol"),
    **dict.fromkeys(_STRINGS, "string"),
    0x74: "decimal32",
    0x84: "decimal64",
    0x94: "decimal128",
}
"""Names of types by the codes of their encodings (AMQP 1.0 part 1, 1.6)."""

_INTEGERS: Final[dict[str, tuple[Callable[[int], object], int, int]]] = {
    "ubyte": (UByte, 0, (1 << 8) - 1),
    "ushort": (UShort, 0, (1 << 16) - 1),
    "uint": (UInt, 0, (1 << 32) - 1),
    "ulong": (ULong, 0, (1 << 64) - 1),
    "byte": (Byte, -(1 << 7), (1 << 7) - 1),
    "short": (Short, -(1 << 15), (1 << 15) - 1),
    "int": (Int, -(1 << 31), (1 << 31) - 1),
    "long": (int, -(1 << 63), (1 << 63) - 1),
}

_DECIMALS: Final[dict[str, tuple[Callable[[bytes], object], int]]] = {
    "decimal32": (Decimal32, 4),
    "decimal64": (Decimal64, 8),
    "decimal128": (Decimal128, 16),
}

TYPE_NAMES: Final = tuple(dict.fromkeys(_NAMES.values()))

_MOST_DIGITS: Final = 20
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


# --- values to texts ----------------------------------------------------------


def text_of(value: object) -> str | None:
    """The text of a decoded value; None for null."""
    if value is None:
        return None
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, int | float | UUID):
        return str(value)
    return json_of(value)


def json_of(value: object) -> str:
    """A text unchanged; other values as JSON, as far as possible."""
    if isinstance(value, str):
        return str(value)
    return dumps(_plain(value), ensure_ascii=False, default=str)


def _plain(value: object) -> object:
    if isinstance(value, Described):
        return _plain(value.value)
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, AmqpArray):
        return [_plain(item) for item in value.items]
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return value


def name_of(code: int) -> str | None:
    """The name of the type that this code begins, if a text gives back its values."""
    return _NAMES.get(code)


def type_of(raw: bytes, at: int, end: int, text: str | None) -> str | None:
    """The type of the encoded value from `at` to `end`, whose text is known. None for a
    string and for null."""
    code = raw[at]
    if text is None:
        if code == _NULL:
            return None
    elif code in _STRINGS:
        return None
    else:
        name = _NAMES.get(code)
        if name is not None and not (text == "nan" and _has_payload(raw, at, end)):
            return name
    return OPAQUE + b64encode(raw[at:end]).decode()


def _has_payload(raw: bytes, at: int, end: int) -> bool:
    nan = float("nan")
    return raw[at + 1 : end] not in (pack(">f", nan), pack(">d", nan))


# --- texts to values ----------------------------------------------------------


def encoded_value(type_name: str, text: str | None) -> bytes:
    """The value, encoded. Raises ValueError, whose text says what would be right."""
    if type_name.startswith(OPAQUE):
        return _opaque(type_name, text)
    if type_name not in TYPE_NAMES:
        raise ValueError(f"there is no such type; there are {', '.join(TYPE_NAMES)}")
    if text is None:
        return NULL
    try:
        return encode(_value(type_name, text))
    except (LocalError, OverflowError):
        raise ValueError(f"the value does not fit into a {type_name}") from None


def _value(type_name: str, text: str) -> object:
    if type_name == "string":
        return text
    if type_name in _INTEGERS:
        return _integer(type_name, text)
    if type_name in _DECIMALS:
        kind, size = _DECIMALS[type_name]
        content = _bytes(text)
        if len(content) != size:
            raise ValueError(f"a {type_name} is {size} bytes, in base64")
        return kind(content)
    return _READERS[type_name](text)


def _integer(type_name: str, text: str) -> object:
    kind, lowest, highest = _INTEGERS[type_name]
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS:
        value = int(text)
        if lowest <= value <= highest:
            return kind(value)
    raise ValueError(f"it must be a whole number from {lowest} to {highest}")


def _boolean(text: str) -> object:
    folded = text.lower()
    if folded not in ("true", "false"):
        raise ValueError("it must be true or false")
    return folded == "true"


def _double(text: str) -> object:
    try:
        return float("?" if "_" in text else text)
    except ValueError:
        raise ValueError("it must be a number, such as 0.5 or 1e9") from None


def _float(text: str) -> object:
    value = _double(text)
    assert isinstance(value, float)
    # Raises OverflowError if it is too large.
    pack(">f", value)
    return Float32(value)


def _char(text: str) -> object:
    if len(text) != 1:
        raise ValueError("it must be one character")
    return Char(text)


def _symbol(text: str) -> object:
    if not text.isascii():
        raise ValueError("it must be ASCII")
    return Symbol(text)


def _uuid(text: str) -> object:
    try:
        return UUID(text)
    except ValueError:
        raise ValueError("it must be a UUID of 32 hexadecimal digits") from None


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (NotBase64, ValueError):
        raise ValueError("it must be base64") from None


def _timestamp(text: str) -> object:
    """In milliseconds; a time in ISO 8601 is read as well, as UTC without a zone."""
    if text.removeprefix("-").isdigit():
        return Timestamp(int(text))
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            "it must be milliseconds since 1970, or a time in ISO 8601"
        ) from None
    since = (read if read.tzinfo else read.replace(tzinfo=UTC)) - _EPOCH
    if since % _MILLISECOND:
        raise ValueError("it must have no parts of a millisecond")
    return Timestamp(since // _MILLISECOND)


_READERS: Final[dict[str, Callable[[str], object]]] = {
    "boolean": _boolean,
    "double": _double,
    "float": _float,
    "char": _char,
    "symbol": _symbol,
    "uuid": _uuid,
    "binary": _bytes,
    "timestamp": _timestamp,
}


def _opaque(type_name: str, text: str | None) -> bytes:
    encoded = _bytes(type_name.removeprefix(OPAQUE))
    try:
        is_whole = bool(encoded) and skip(encoded, 0) == len(encoded)
    except DecodeError:
        is_whole = False
    if not is_whole:
        raise ValueError("the type does not have one encoded AMQP value in base64")
    if _text_at(encoded) != text:
        raise ValueError(
            "the value was changed, and its type has the bytes of the one before: give "
            "it another type"
        )
    return encoded


def _text_at(encoded: bytes) -> str | None:
    try:
        return text_of(decode(encoded, 0)[0])
    except DecodeError:
        return None
