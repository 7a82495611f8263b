"""Arithmetic as in C#, and errors where C# would throw."""

import math

import pytest

from twinbus.limits import PROPERTIES_BYTES
from twinbus.rules.arithmetic import (
    INTEGER_HIGHEST,
    INTEGER_LOWEST,
    calculate,
    negative,
)
from twinbus.rules.filter_error import FilterError
from twinbus.rules.values import Duration, Instant


@pytest.mark.parametrize(
    ("operator", "left", "right", "result"),
    [
        ("+", 1, 2, 3),
        ("-", 1, 2, -1),
        ("*", 3, 4, 12),
        ("/", 7, 2, 3),
        ("/", -7, 2, -3),
        ("/", 7, -2, -3),
        ("/", -7, -2, 3),
        ("%", 7, 3, 1),
        ("%", -7, 3, -1),
        ("%", 7, -3, 1),
        ("+", 1, 0.5, 1.5),
        ("-", 0.5, 1, -0.5),
        ("*", 2, 0.5, 1.0),
        ("/", 7, 2.0, 3.5),
        ("%", -7.5, 2, -1.5),
        ("/", 1.0, 0, math.inf),
        ("/", -1.0, 0, -math.inf),
        ("/", 1.0, -0.0, -math.inf),
        ("+", "a", "b", "ab"),
        ("+", Instant(5), Duration(3), Instant(8)),
        ("-", Instant(5), Duration(3), Instant(2)),
        ("-", Instant(5), Instant(3), Duration(2)),
        ("+", Duration(5), Duration(3), Duration(8)),
        ("-", Duration(5), Duration(3), Duration(2)),
    ],
)
def test_operators_have_results(
    operator: str, left: object, right: object, result: object
) -> None:
    found = calculate(operator, left, right)
    assert found == result
    assert type(found) is type(result)


@pytest.mark.parametrize(
    ("left", "right"), [(0.0, 0), (math.nan, 0), (math.inf, -math.inf)]
)
def test_doubles_divided_without_a_result_are_no_number(
    left: float, right: float
) -> None:
    found = calculate("/", left, right)
    assert isinstance(found, float) and math.isnan(found)


@pytest.mark.parametrize(("left", "right"), [(1.0, 0), (math.inf, 2.0)])
def test_remainder_without_a_result_is_no_number(left: float, right: float) -> None:
    found = calculate("%", left, right)
    assert isinstance(found, float) and math.isnan(found)


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "%"])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        (None, 1),
        (1, None),
        ("a", 1),
        (1, "a"),
        (True, 1),
        (1, True),
        (b"a", b"b"),
        (Instant(1), 1),
        (Duration(1), Instant(1)),
    ],
)
def test_what_does_not_go_together_is_unknown(
    operator: str, left: object, right: object
) -> None:
    assert calculate(operator, left, right) is None


@pytest.mark.parametrize("operator", ["-", "*", "/", "%"])
def test_strings_only_add_up(operator: str) -> None:
    assert calculate(operator, "a", "b") is None


@pytest.mark.parametrize(
    ("operator", "left", "right"),
    [
        ("+", INTEGER_HIGHEST, 1),
        ("-", INTEGER_LOWEST, 1),
        ("*", INTEGER_HIGHEST, 2),
        ("/", INTEGER_LOWEST, -1),
    ],
)
def test_integers_do_not_overflow_silently(
    operator: str, left: int, right: int
) -> None:
    with pytest.raises(FilterError, match="64 bits"):
        calculate(operator, left, right)


@pytest.mark.parametrize("operator", ["/", "%"])
def test_integers_are_not_divided_by_zero(operator: str) -> None:
    with pytest.raises(FilterError, match="7 is divided by zero"):
        calculate(operator, 7, 0)


def test_times_do_not_overflow_silently() -> None:
    for left in (Duration(INTEGER_HIGHEST), Instant(INTEGER_HIGHEST)):
        with pytest.raises(FilterError, match="64 bits"):
            calculate("+", left, Duration(1))


def test_texts_do_not_grow_beyond_what_a_message_holds() -> None:
    half = "x" * (PROPERTIES_BYTES // 2)
    assert calculate("+", half, half) == half * 2
    with pytest.raises(FilterError, match=str(PROPERTIES_BYTES + 1)):
        calculate("+", half + "x", half)


def test_signs_change_numbers_and_durations() -> None:
    assert negative(5) == -5
    assert negative(-0.5) == 0.5
    assert negative(Duration(3)) == Duration(-3)
    assert negative(True) is None
    assert negative("5") is None
    assert negative(None) is None
    with pytest.raises(FilterError, match="64 bits"):
        negative(INTEGER_LOWEST)
