"""Decoding: exact bytes to values, and invalid input."""

from collections.abc import Callable
from uuid import UUID

import pytest

from twinbus.amqp.decoder import decode, field_offsets, has_more_values, skip
from twinbus.amqp.encoder import encode
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

EXAMPLES = [
    ("40", None),
    ("41", True),
    ("42", False),
    ("5601", True),
    ("5600", False),
    ("50ff", UByte(255)),
    ("60ffff", UShort(65535)),
    ("43", UInt(0)),
    ("52ff", UInt(255)),
    ("70ffffffff", UInt(0xFFFFFFFF)),
    ("44", ULong(0)),
    ("5301", ULong(1)),
    ("80ffffffffffffffff", ULong(0xFFFFFFFFFFFFFFFF)),
    ("5180", Byte(-128)),
    ("618000", Short(-32768)),
    ("54ff", Int(-1)),
    ("7180000000", Int(-(2**31))),
    ("55ff", -1),
    ("818000000000000000", -(2**63)),
    ("723fc00000", Float32(1.5)),
    ("823ff8000000000000", 1.5),
    ("7401020304", Decimal32(b"\1\2\3\4")),
    ("840102030405060708", Decimal64(bytes(range(1, 9)))),
    ("94" + "07" * 16, Decimal128(b"\7" * 16)),
    ("730001f600", Char("\U0001f600")),
    ("83ffffffffffffffff", Timestamp(-1)),
    ("98" + "11" * 16, UUID("11111111-1111-1111-1111-111111111111")),
    ("a00201ff", b"\x01\xff"),
    ("b00000000201ff", b"\x01\xff"),
    ("a102c3a9", "é"),
    ("b100000002c3a9", "é"),
    ("a30361626f", Symbol("abo")),
    ("b30000000361626f", Symbol("abo")),
    ("45", []),
    ("c003024142", [True, False]),
    ("d000000006000000024142", [True, False]),
    ("c10502a1016143", {"a": UInt(0)}),
    ("d10000000800000002a1016143", {"a": UInt(0)}),
    ("00531045", Described(ULong(0x10), [])),
]


@pytest.mark.parametrize(("data", "value"), EXAMPLES)
def test_every_constructor_gives_its_type(data: str, value: object) -> None:
    encoded = bytes.fromhex(data)
    decoded, end = decode(encoded, 0)
    assert decoded == value
    assert type(decoded) is type(value)
    assert end == len(encoded)
    assert skip(encoded, 0) == len(encoded)


@pytest.mark.parametrize(
    ("data", "array"),
    [
        ("e00602a301610162", AmqpArray(0xA3, [Symbol("a"), Symbol("b")])),
        ("f00000000900000001700000000a", AmqpArray(0x70, [UInt(10)])),
        ("e0020241", AmqpArray(0x41, [True, True])),
        ("e00701005310a3017a", AmqpArray(0xA3, [Symbol("z")], ULong(0x10))),
    ],
)
def test_arrays_share_one_constructor(data: str, array: AmqpArray) -> None:
    assert decode(bytes.fromhex(data), 0) == (array, len(data) // 2)


@pytest.mark.parametrize(
    "data",
    [
        "",
        "00",
        "0053",
        "70000000",
        "5602",
        "3f",
        "46",
        "a2",
        "a003ffff",
        "a101ff",
        "a301ff",
        "7300110000",
        "730000d800",
        "c0",
        "c001",
        "c0030241",
        "c0ff0141",
        "c0020541",
        "c103014142",
        "c103024541",
        "d0ffffffff00000000",
        "d000000004ffffffff",
        "e0021141",
        "f000000005ffffffff41",
        "c2024145",
        "a2024141",
        "c003014141",
        "c10402414141",
        "e00800005310005311",
        "e0030141ff",
        "e0040150ffff",
        "e00100",
        "e0020171",
        "f00000000900000002700000000a",
        "e005010000534145",
    ],
)
def test_malformed_bytes_are_a_decode_error(data: str) -> None:
    with pytest.raises(DecodeError):
        decode(bytes.fromhex(data), 0)


def test_nesting_has_a_limit() -> None:
    def nested(depth: int) -> bytes:
        data = b"\x45"
        for _ in range(depth):
            data = b"\xd0" + (len(data) + 4).to_bytes(4) + b"\0\0\0\1" + data
        return data

    decode(nested(60), 0)
    with pytest.raises(DecodeError, match="nested"):
        decode(nested(65), 0)
    with pytest.raises(DecodeError, match="nested"):
        decode(b"\0" * 100_000, 0)


def test_a_long_chain_of_descriptors_can_be_skipped_without_recursion() -> None:
    assert skip(b"\0" * 50_000 + b"\x40" * 50_001, 0) == 100_001
    with pytest.raises(DecodeError):
        skip(b"\0" * 50_000, 0)


@pytest.mark.parametrize("data", ["", "3f", "a0", "b00000", "a0054142", "0053"])
def test_what_does_not_end_cannot_be_skipped(data: str) -> None:
    with pytest.raises(DecodeError):
        skip(bytes.fromhex(data), 0)


def test_field_offsets_delimit_the_fields_of_a_list() -> None:
    assert field_offsets(bytes.fromhex("c0050341520742"), 0) == [3, 4, 6, 7]
    assert field_offsets(b"\x45", 0) == [1]
    with pytest.raises(DecodeError):
        field_offsets(b"", 0)
    with pytest.raises(DecodeError):
        field_offsets(b"\xc1\x01\x00", 0)
    with pytest.raises(DecodeError):
        field_offsets(bytes.fromhex("c003014142"), 0)


def large_map(keys: list[object]) -> bytes:
    entries = b"".join(encode(key) + b"\x40" for key in keys)
    count = (2 * len(keys)).to_bytes(4, "big")
    return b"\xd1" + (len(entries) + 4).to_bytes(4, "big") + count + entries


# Python's hash of a whole number is its remainder by this one.
MODULUS = (1 << 61) - 1


def test_a_map_of_uuids_with_one_hash_is_refused() -> None:
    keys = [UUID(int=5 + number * MODULUS) for number in range(3_000)]
    assert len({hash(key) for key in keys}) == 1
    with pytest.raises(
        DecodeError, match="more than 1024 keys that are numbers, or 16"
    ):
        decode(large_map(list(keys)), 0)
    decoded, _ = decode(large_map(list(keys[:16])), 0)
    assert decoded == dict.fromkeys(keys[:16])


@pytest.mark.parametrize("inside", [lambda key: Described(ULong(1), key), lambda x: x])
def test_keys_that_are_refused_are_not_compared(inside: Callable[..., object]) -> None:
    """Also when they are within others: few are looked at, however many there are."""
    keys = [inside(UUID(int=number * MODULUS)) for number in range(50_000)]
    with pytest.raises(DecodeError, match="a map has more than"):
        decode(large_map(keys), 0)


def test_a_map_with_numbers_for_keys() -> None:
    numbers: list[object] = [0.5, True, *range(5, 1_027)]
    assert decode(large_map(numbers), 0)[0] == dict.fromkeys(numbers)
    with pytest.raises(DecodeError, match="a map has more than"):
        decode(large_map([*numbers, 2_000]), 0)


def test_a_map_with_texts_and_binaries_for_keys_may_be_as_large_as_it_is() -> None:
    keys: list[object] = [f"key {number}" for number in range(20_000)]
    keys += [b"%d" % number for number in range(20_000)]
    keys += [Symbol(f"symbol {number}") for number in range(20_000)]
    decoded, _ = decode(large_map(keys), 0)
    assert decoded == dict.fromkeys(keys)


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (None, 1),
        ([None, [None, None]], 5),
        ({"a": [1], "b": b"x" * 300}, 6),
        # A descriptor, what it describes, and the mark that there are two.
        (Described(ULong(1), ["a"]), 4),
        (AmqpArray(0x81, [1, 2, 3]), 4),
    ],
)
def test_values_are_counted_with_all_that_is_in_them(value: object, count: int) -> None:
    encoded = encode(value)
    assert has_more_values(encoded, count - 1)
    assert not has_more_values(encoded, count)
    assert has_more_values(3 * encoded, 3 * count - 1)
    assert not has_more_values(3 * encoded, 3 * count)


def test_values_within_an_array_of_lists_are_no_way_around_the_count() -> None:
    hidden = AmqpArray(0xD0, [[None] * 1_000])
    assert has_more_values(encode(hidden), 1_000)


def test_counting_values_ends_where_they_are_broken() -> None:
    for broken in (b"\x01", b"\xd0\x00", b"\xf0\x00\x00\x00\x00"):
        with pytest.raises(DecodeError):
            has_more_values(broken, 10)
