"""Maps are changed entry by entry, and all other bytes are kept."""

import pytest

from twinbus.amqp.codec import decode, encode
from twinbus.amqp.errors import DecodeError
from twinbus.amqp.types import Int, Symbol, Timestamp, UByte
from twinbus.encoding.maps import changed_map, check_map, encoded_strings

MIXED = {
    "count": Int(3),
    "level": UByte(3),
    "when": Timestamp(3),
    Symbol("kind"): [1, {"a": None}],
}


def test_kept_entries_keep_their_types() -> None:
    changed, _ = decode(changed_map(encode(MIXED), [], {}), 0)
    assert changed == MIXED
    assert [type(value) for value in changed.values()] == [Int, UByte, Timestamp, list]
    assert [type(key) for key in changed] == [str, str, str, Symbol]


def test_named_entries_are_dropped_and_new_ones_come_last() -> None:
    added = {encode("level"): encode(Int(9))}
    changed, _ = decode(changed_map(encode(MIXED), [b"level", b"kind"], added), 0)
    assert list(changed.items()) == [
        ("count", Int(3)),
        ("when", Timestamp(3)),
        ("level", Int(9)),
    ]


@pytest.mark.parametrize("code", [b"\xa1\x01", b"\xb1\x00\x00\x00\x01"])
def test_keys_are_dropped_in_whichever_form_they_were_sent(code: bytes) -> None:
    entry = code + b"a\x41"
    encoded = b"\xc1" + bytes((len(entry) + 1, 2)) + entry
    assert changed_map(encoded, [b"a"], {}) == b"\xc1\x01\x00"


def test_keys_that_are_no_text_are_kept() -> None:
    encoded = encode({Int(1): "one"})
    assert changed_map(encoded, [b"1", b"\x01"], {}) == encoded


def test_nothing_becomes_a_map_of_what_is_added() -> None:
    added = encoded_strings({"reason": "why"})
    assert decode(changed_map(b"", [], added), 0)[0] == {"reason": "why"}


@pytest.mark.parametrize(
    ("value_bytes", "code"), [(248, 0xC1), (249, 0xC1), (250, 0xD1), (70_000, 0xD1)]
)
def test_maps_grow_into_the_wide_form_at_256_bytes(value_bytes: int, code: int) -> None:
    # Count, key (3 bytes) and value come to 255 bytes in the last narrow one.
    value = b"\xa0" + bytes((value_bytes,)) if value_bytes < 256 else b""
    value = value or b"\xb0" + value_bytes.to_bytes(4, "big")
    changed = changed_map(b"", [], {b"\xa1\x01k": value + bytes(value_bytes)})
    assert changed[0] == code
    assert decode(changed, 0) == ({"k": bytes(value_bytes)}, len(changed))


@pytest.mark.parametrize(("entry_count", "code"), [(63, 0xC1), (64, 0xD1), (200, 0xD1)])
def test_maps_grow_into_the_wide_form_by_their_entries(
    entry_count: int, code: int
) -> None:
    added = {b"\x52" + bytes((number,)): b"\x52\x00" for number in range(entry_count)}
    changed = changed_map(b"", [], added)
    assert changed[0] == code
    assert decode(changed, 0)[0] == {number: 0 for number in range(entry_count)}


def test_wide_maps_are_read_as_narrow_ones_are() -> None:
    wide = b"\xd1\x00\x00\x00\x08\x00\x00\x00\x02\xa1\x01a\x41"
    assert changed_map(wide, [], {}) == b"\xc1\x05\x02\xa1\x01a\x41"
    assert changed_map(wide, [b"a"], {}) == b"\xc1\x01\x00"


@pytest.mark.parametrize(
    "encoded",
    [encode(MIXED), b"\xc1\x01\x00", b"\xd1\x00\x00\x00\x04\x00\x00\x00\x00"],
)
def test_whole_maps_are_let_through(encoded: bytes) -> None:
    check_map(b"??" + encoded, 2, 2 + len(encoded))


@pytest.mark.parametrize(
    "encoded",
    [
        b"\x45",
        b"\xa1\x00",
        b"\xc1\x01",
        b"\xd1\x00\x00\x00\x04\x00\x00\x00",
        b"\xc1\x02\x01\x40",
        b"\xc1\x03\x02\x40\xa1",
        b"\xc1\x05\x02\x40\x40\x40\x40",
        b"\xc1\x02\x02\x40",
        b"\xd1\x00\x00\x00\x04\xff\xff\xff\xfe",
    ],
)
def test_broken_maps_are_refused(encoded: bytes) -> None:
    with pytest.raises(DecodeError):
        check_map(encoded, 0, len(encoded))
