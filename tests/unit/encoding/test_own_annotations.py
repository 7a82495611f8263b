"""Annotations of twinbus: which values are valid ids and origins."""

import pytest

from twinbus.amqp.types import Decimal32, Symbol
from twinbus.broker.changes import LedgerRange
from twinbus.encoding.own_annotations import (
    RESTORED_FROM,
    SEND_ID,
    restored_from_of,
    send_id_of,
)
from twinbus.errors import ArgumentError


@pytest.mark.parametrize(
    ("given", "send_id"),
    [
        (b"\x00", b"\x00"),
        (b"x" * 64, b"x" * 64),
        ("caf\u00e9", b"caf\xc3\xa9"),
        (Symbol("id"), b"id"),
    ],
)
def test_send_id_is_binary_or_a_text(given: object, send_id: bytes) -> None:
    assert send_id_of({SEND_ID: given}) == send_id


@pytest.mark.parametrize(
    "given", [b"", b"x" * 65, "", "\u00e9" * 33, 5, True, Decimal32(b"1234"), [b"1"]]
)
def test_what_is_no_send_id_is_refused(given: object) -> None:
    with pytest.raises(ArgumentError, match="'x-opt-twinbus-send-id' must be binary"):
        send_id_of({SEND_ID: given})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("0@g@s", ("s", b"g", 0)),
        (f"{(1 << 63) - 2}@{'g' * 128}@{'s' * 512}", None),
        ("7@\u00e9@a@b@", ("a@b@", b"\xc3\xa9", 7)),
        ("007@g@s", ("s", b"g", 7)),
    ],
)
def test_origin_is_taken_apart(
    given: str, expected: tuple[str, bytes, int] | None
) -> None:
    if expected is None:
        expected = ("s" * 512, b"g" * 128, (1 << 63) - 2)
    source, generation, number = expected
    assert restored_from_of({RESTORED_FROM: given}) == LedgerRange(
        source=source, generation=generation, first=number, last=number
    )


@pytest.mark.parametrize(
    "given",
    [
        *("", "1", "1@g", "1@g@", "1@@s", "@g@s", " 1@g@s", "+1@g@s", "1_0@g@s"),
        *("\u0661@g@s", "\u00b2@g@s", f"{(1 << 63) - 1}@g@s", f"{'9' * 5000}@g@s"),
        *(f"1@{'g' * 129}@s", f"1@g@{'s' * 513}", 5, b"1@g@s", None),
    ],
)
def test_what_is_no_origin_is_refused(given: object) -> None:
    with pytest.raises(ArgumentError, match="SEQUENCE@GENERATION@SOURCE"):
        restored_from_of({RESTORED_FROM: given})
