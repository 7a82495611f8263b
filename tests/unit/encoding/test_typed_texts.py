"""Texts of AMQP values, and the values of texts."""

from base64 import b64encode
from struct import pack
from uuid import UUID

import pytest

from twinbus.amqp.codec import decode, encode
from twinbus.amqp.types import (
    AmqpArray,
    Byte,
    Char,
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
from twinbus.encoding.typed_texts import TYPE_NAMES, encoded_value, text_of, type_of

ID = UUID("00112233-4455-6677-8899-aabbccddeeff")


def typed(encoded: bytes) -> tuple[str | None, str | None]:
    """The text and the type of a value."""
    text = text_of(decode(encoded, 0)[0])
    return text, type_of(encoded, 0, len(encoded), text)


@pytest.mark.parametrize(
    ("value", "text", "name"),
    [
        (True, "true", "boolean"),
        (False, "false", "boolean"),
        (UByte(255), "255", "ubyte"),
        (UShort(65_535), "65535", "ushort"),
        (UInt(0), "0", "uint"),
        (UInt(200), "200", "uint"),
        (UInt(1 << 31), "2147483648", "uint"),
        (ULong(0), "0", "ulong"),
        (ULong((1 << 64) - 1), "18446744073709551615", "ulong"),
        (Byte(-128), "-128", "byte"),
        (Short(-5), "-5", "short"),
        (Int(7), "7", "int"),
        (Int(1 << 30), "1073741824", "int"),
        (7, "7", "long"),
        (-(1 << 63), "-9223372036854775808", "long"),
        (Float32(0.1), "0.10000000149011612", "float"),
        (0.1, "0.1", "double"),
        (float("-inf"), "-inf", "double"),
        (float("nan"), "nan", "double"),
        (Char("\U0001f600"), "\U0001f600", "char"),
        (Timestamp(-1), "-1", "timestamp"),
        (ID, str(ID), "uuid"),
        (b"\x00\xff", "AP8=", "binary"),
        (b"", "", "binary"),
        (Symbol("s"), "s", "symbol"),
        (Symbol("s" * 300), "s" * 300, "symbol"),
        (Decimal128(bytes(range(16))), "AAECAwQFBgcICQoLDA0ODw==", "decimal128"),
    ],
)
def test_a_type_and_a_text_give_back_the_value(
    value: object, text: str, name: str
) -> None:
    encoded = encode(value)
    assert typed(encoded) == (text, name)
    assert encoded_value(name, text) == encoded
    assert name in TYPE_NAMES


@pytest.mark.parametrize("value", ["", "text", "t" * 300, None])
def test_strings_and_null_need_no_type(value: str | None) -> None:
    assert typed(encode(value)) == (value, None)
    assert encoded_value("string", value) == encode(value)


@pytest.mark.parametrize(
    "encoded",
    [
        encode(Described(Symbol("com.microsoft:timespan"), 5)),
        encode([1, "two", None]),
        encode({"a": 1}),
        encode(AmqpArray(0x71, [Int(1), Int(2)])),
        b"\x82" + pack(">Q", 0x7FF8000000000001),
        b"\x72" + pack(">I", 0xFFC00000),
    ],
)
def test_what_no_text_gives_back_keeps_its_bytes(encoded: bytes) -> None:
    text, name = typed(encoded)
    assert name == f"amqp:{b64encode(encoded).decode()}"
    assert encoded_value(name, text) == encoded
    with pytest.raises(ValueError, match="the value was changed"):
        encoded_value(name, "another")


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("long", "seven", "a whole number from -9223372036854775808 to"),
        ("long", "7.0", "a whole number"),
        ("long", "", "a whole number"),
        ("long", "1" * 30, "a whole number"),
        ("long", "\u0667", "a whole number"),
        ("ubyte", "256", "from 0 to 255"),
        ("uint", "-1", "from 0 to 4294967295"),
        ("boolean", "yes", "true or false"),
        ("double", "1_0", "a number"),
        ("double", "x", "a number"),
        ("float", "1e39", "does not fit into a float"),
        ("char", "ab", "one character"),
        ("symbol", "\u00e9", "ASCII"),
        ("uuid", "1234", "a UUID"),
        ("binary", "?", "base64"),
        ("decimal32", "AAAA", "4 bytes, in base64"),
        ("timestamp", "soon", "milliseconds since 1970, or a time"),
        ("timestamp", "2026-11-17T10:00:00.000001Z", "no parts of a millisecond"),
        ("timestamp", "9" * 30, "does not fit into a timestamp"),
        ("integer", "7", "no such type; there are boolean, ubyte"),
        ("amqp:", "7", "one encoded AMQP value"),
        ("amqp:VVVV", "7", "one encoded AMQP value"),
        ("amqp:?", "7", "base64"),
    ],
)
def test_a_text_that_does_not_fit_is_refused(name: str, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        encoded_value(name, text)


def test_null_has_every_type() -> None:
    for name in TYPE_NAMES:
        assert encoded_value(name, None) == encode(None)


def test_a_timestamp_may_be_written_as_a_time() -> None:
    expected = encode(Timestamp(1_763_373_600_123))
    for text in ("2025-11-17T10:00:00.123Z", "2025-11-17T11:00:00.123+01:00"):
        assert encoded_value("timestamp", text) == expected
    assert encoded_value("timestamp", "1970-01-01 00:00:01") == encode(Timestamp(1000))
