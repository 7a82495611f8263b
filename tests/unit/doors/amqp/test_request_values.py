"""Arguments of management requests are checked before anything is done."""

from typing import Any

import pytest

from twinbus.amqp.types import AmqpArray, Int, ULong
from twinbus.doors.amqp.request_links import Request
from twinbus.doors.amqp.request_values import (
    array_items,
    integer,
    named_session,
    session_of,
)
from twinbus.errors import ArgumentError, ArgumentOutOfRange


@pytest.mark.parametrize("value", [[1, 2], (1, 2), AmqpArray(0x81, [1, 2])])
def test_arrays_and_lists_are_the_same(value: Any) -> None:
    assert array_items(value, "numbers") == [1, 2]


@pytest.mark.parametrize("value", [[], 5, "ab", {"a": 1}, AmqpArray(0x81, [])])
def test_what_has_no_items_is_refused(value: Any) -> None:
    with pytest.raises(ArgumentError, match="'numbers' must be an array"):
        array_items(value, "numbers")


def test_arrays_have_a_limit() -> None:
    with pytest.raises(ArgumentOutOfRange, match="4097 items; at most 4096"):
        array_items([1] * 4097, "numbers")


@pytest.mark.parametrize("value", [1, Int(5), ULong(10)])
def test_integers_of_any_width_are_taken(value: int) -> None:
    found = integer(value, "count", 1, 10)
    assert (found, type(found)) == (int(value), int)


@pytest.mark.parametrize("value", [True, "1", 1.0, None])
def test_other_values_are_no_integers(value: Any) -> None:
    with pytest.raises(ArgumentError, match="'count' must be a whole number"):
        integer(value, "count", 1, 10)


@pytest.mark.parametrize("value", [0, 11])
def test_integers_have_limits(value: int) -> None:
    with pytest.raises(
        ArgumentOutOfRange, match=f"is {value}; it must be from 1 to 10"
    ):
        integer(value, "count", 1, 10)


def asking(**body: object) -> Request:
    value = {name.replace("_", "-"): item for name, item in body.items()}
    return Request(operation="peek", properties={}, value=value)


def test_session_may_be_named_or_not() -> None:
    assert session_of(asking(session_id="a")) == named_session(asking(session_id="a"))
    assert session_of(asking()) is None


def test_session_that_must_be_named_is_asked_for() -> None:
    with pytest.raises(ArgumentError, match="needs 'session-id'"):
        named_session(asking())


def test_session_is_named_by_a_string() -> None:
    with pytest.raises(ArgumentError, match="'session-id' must be a string"):
        session_of(asking(session_id=5))
