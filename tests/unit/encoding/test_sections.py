"""Sections are found, in the short form or converted to it."""

import pytest

from twinbus.amqp.codec import encode
from twinbus.amqp.errors import DecodeError
from twinbus.amqp.types import Described, Symbol, ULong
from twinbus.encoding.layout import AMQP_VALUE, DATA, HEADER
from twinbus.encoding.sections import (
    canonical,
    check_binary,
    find_sections,
    section_code,
)

HEADER_SECTION = b"\x00\x53\x70\x45"
HELLO = b"\x00\x53\x75\xa0\x05hello"


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (HEADER_SECTION, HEADER),
        (HELLO, DATA),
        (b"\x00\x53\x77\x40", AMQP_VALUE),
        (b"\x00\x53\x6f\x40", 0),
        (b"\x00\x53\x79\x40", 0),
        (b"\x00\x80" + bytes(7) + b"\x75\xa0\x00", 0),
        (b"\x01\x53\x75\xa0", 0),
        (b"\x00\x53\x75", 0),
        (b"", 0),
    ],
)
def test_only_short_descriptors_of_message_sections_are_known(
    raw: bytes, code: int
) -> None:
    assert section_code(raw, 0) == code


@pytest.mark.parametrize(
    "descriptor",
    [ULong(0x75), Symbol("amqp:data:binary")],
    ids=["number", "symbol"],
)
def test_any_legal_descriptor_becomes_the_short_one(descriptor: object) -> None:
    assert canonical(encode(Described(descriptor, b"hello"))) == HELLO


def test_long_descriptor_becomes_the_short_one() -> None:
    long_form = b"\x00\x80" + bytes(7) + b"\x75" + HELLO[3:]
    assert canonical(HEADER_SECTION + long_form) == HEADER_SECTION + HELLO


@pytest.mark.parametrize(
    "raw",
    [
        b"\xa1\x02hi",
        b"\x00\x53\x23\x45",
        b"\x00\xa3\x03abc\x45",
        b"\x00\xa1\x03abc\x45",
        b"\x00\x40\x45",
        b"\x00",
        b"\x00\x53",
        b"\x00\x53\x75",
        b"\x00\x53\x75\xa0\x05hell",
    ],
)
def test_what_is_no_message_is_refused(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        canonical(raw)


def test_sections_are_found_by_start_and_end_of_their_values() -> None:
    raw = HEADER_SECTION + HELLO
    assert find_sections(raw) == {HEADER: (3, 4), DATA: (7, 14)}


def test_repeated_sections_reach_from_the_first_to_the_last() -> None:
    assert find_sections(HELLO + HELLO) == {DATA: (3, 20)}


def test_sections_are_not_looked_for_in_other_forms() -> None:
    with pytest.raises(DecodeError, match="no known descriptor"):
        find_sections(b"\x00\x80" + bytes(7) + b"\x75\xa0\x00")


@pytest.mark.parametrize("value", [b"\xa0\x00", b"\xb0\x00\x00\x00\x00"])
def test_binary_is_told_from_the_rest(value: bytes) -> None:
    check_binary(value, 0)
    with pytest.raises(DecodeError, match="not binary"):
        check_binary(b"\xa1" + value[1:], 0)
