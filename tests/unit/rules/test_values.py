"""How values compare, and their keys."""

import math
from uuid import UUID

import pytest

from twinbus.rules.values import (
    DIFFERENT,
    EQUAL,
    GREATER,
    LESS,
    UNKNOWN,
    UNORDERED,
    Duration,
    Instant,
    compare,
    equality_key,
    identity_key,
)

ONE_ID = UUID(int=1)


@pytest.mark.parametrize(
    ("left", "right", "found"),
    [
        (1, 1, EQUAL),
        (1, 2, LESS),
        (2, 1, GREATER),
        (1, 1.0, EQUAL),
        (1.5, 1, GREATER),
        # C# makes a double of the integer, and doubles are that coarse.
        (2**53 + 1, float(2**53), EQUAL),
        (math.nan, math.nan, UNORDERED),
        (math.nan, 1, UNORDERED),
        ("a", "a", EQUAL),
        ("A", "a", LESS),
        ("b", "a", GREATER),
        (True, True, EQUAL),
        (True, False, DIFFERENT),
        (b"a", b"a", EQUAL),
        (b"a", b"b", DIFFERENT),
        (ONE_ID, UUID(int=1), EQUAL),
        (ONE_ID, UUID(int=2), DIFFERENT),
        (Instant(1), Instant(1), EQUAL),
        (Instant(1), Instant(2), LESS),
        (Duration(2), Duration(1), GREATER),
    ],
)
def test_values_of_one_type_compare(left: object, right: object, found: int) -> None:
    assert compare(left, right) == found


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("1", 1),
        (1, "1"),
        (True, 1),
        (1, True),
        (1.0, True),
        ("a", b"a"),
        (b"a", "a"),
        (str(ONE_ID), ONE_ID),
        (ONE_ID, str(ONE_ID)),
        (Instant(1), Duration(1)),
        (Duration(1), Instant(1)),
        (Instant(1), 1),
        (1, Instant(1)),
        (None, None),
        (1, None),
        (None, "a"),
        ([], []),
    ],
)
def test_values_of_different_types_are_unknown(left: object, right: object) -> None:
    assert compare(left, right) == UNKNOWN


def test_identity_tells_types_apart_that_python_calls_equal() -> None:
    keys = [identity_key(value) for value in (1, 1.0, True, "1", b"1", Instant(1))]
    assert len(set(keys)) == len(keys)
    assert identity_key(None) is None
    assert identity_key([]) is None


def test_numbers_that_compare_equal_have_one_equality_key() -> None:
    assert equality_key(1) == equality_key(1.0)
    assert equality_key(2**53 + 1) == equality_key(float(2**53))
    assert equality_key(True) != equality_key(1)
    assert equality_key(None) is None


def test_times_say_what_they_are() -> None:
    assert repr(Instant(5)) == "Instant(5)"
    assert repr(Duration(5)) == "Duration(5)"
    assert Instant(5) != Duration(5)
    assert hash(Instant(5)) == hash(Instant(5))
    assert hash(Duration(5)) == hash(Duration(5))
