"""Encoding: the shortest form, ranges, and arrays."""

import pytest

from twinbus.amqp.decoder import decode
from twinbus.amqp.encoder import encode
from twinbus.amqp.errors import LocalError
from twinbus.amqp.types import (
    AmqpArray,
    Byte,
    Char,
    Decimal32,
    Described,
    Encoded,
    Float32,
    Int,
    Symbol,
    UByte,
    UInt,
    ULong,
    UShort,
)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (UInt(0), "43"),
        (UInt(255), "52ff"),
        (UInt(256), "7000000100"),
        (ULong(0), "44"),
        (ULong(255), "53ff"),
        (ULong(256), "800000000000000100"),
        (-128, "5580"),
        (128, "810000000000000080"),
        (Int(-128), "5480"),
        (Int(128), "7100000080"),
        (True, "41"),
        ("é", "a102c3a9"),
        (Symbol("x"), "a30178"),
        (b"", "a000"),
        ([], "45"),
        ({}, "c10100"),
        (Described(ULong(0x24), []), "00532445"),
        ([Encoded(b"\x41"), None], "c003024140"),
    ],
)
def test_the_shortest_form_is_chosen(value: object, data: str) -> None:
    assert encode(value).hex() == data


def test_sizes_beyond_a_byte_take_the_wide_form() -> None:
    assert encode(b"x" * 256)[:5].hex() == "b000000100"
    assert encode([None] * 254)[:3].hex() == "c0fffe"
    assert encode([None] * 255)[:9].hex() == "d000000103000000ff"
    assert encode([UInt(0)] * 300)[0] == 0xD0


@pytest.mark.parametrize(
    "value",
    [
        UByte(256),
        UByte(-1),
        UShort(65536),
        UInt(2**32),
        UInt(-1),
        ULong(2**64),
        Byte(128),
        Int(2**31),
        2**63,
        Float32(1e300),
        Char("ab"),
        Char(""),
        Decimal32(b"123"),
        Symbol("é"),
        "\ud800",
        object(),
        (1, 2),
        AmqpArray(0x41, [True]),
        AmqpArray(0xA1, [1]),
        AmqpArray(0xA1, ["x" * 256]),
    ],
)
def test_what_has_no_encoding_is_our_mistake(value: object) -> None:
    with pytest.raises(LocalError):
        encode(value)


def test_nesting_has_a_limit() -> None:
    value: object = []
    for _ in range(70):
        value = [value]
    with pytest.raises(LocalError, match="nested"):
        encode(value)


@pytest.mark.parametrize(
    "array",
    [
        AmqpArray(0xA3, [Symbol("a"), Symbol("bc")]),
        AmqpArray(0xB3, [Symbol("a"), Symbol("b" * 300)]),
        AmqpArray(0x70, [UInt(0), UInt(1), UInt(1000)]),
        AmqpArray(0x52, [UInt(0), UInt(1)]),
        AmqpArray(0x53, [ULong(0), ULong(1)]),
        AmqpArray(0x80, [ULong(0), ULong(1), ULong(2**40)]),
        AmqpArray(0x81, [-1, 1, 2**40]),
        AmqpArray(0x71, [Int(-1), Int(1), Int(2**20)]),
        AmqpArray(0x56, [True, False]),
        AmqpArray(0xC0, [[], [True]]),
        AmqpArray(0xD0, [[], [True], [b"x" * 300]]),
        AmqpArray(0xD1, [{}, {"a": "b" * 300}]),
        AmqpArray(0xA1, []),
        AmqpArray(0xA1, ["x"], Symbol("described")),
    ],
)
def test_elements_take_the_form_of_their_array(array: AmqpArray) -> None:
    data = encode(array)
    decoded, end = decode(data, 0)
    assert decoded == array
    assert end == len(data)
