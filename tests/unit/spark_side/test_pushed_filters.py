"""Filters that the bus applies: never less than a query wants."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from twinbus.spark.pushed_filters import push
from twinbus.spark.read_options import ReadBounds, ReadOptions, read_options

NUMBER = ("sequence_number",)
TIME = ("enqueued_time",)
STATE = ("state",)
SESSION = ("session_id",)
AT = datetime(2026, 11, 17, 12, 0, 0, 500_000, tzinfo=UTC)
AT_MS = 1_794_916_800_500
MICROSECOND = timedelta(microseconds=1)


def options(**given: str) -> ReadOptions:
    must = {"credential": "env:BUS", "entities": "a", "pushFilters": "true"}
    return read_options({**must, **given}, is_stream=False)


def bounds(*filters: Filter) -> ReadBounds:
    return push(options(), filters)[0].pushed


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (EqualTo(NUMBER, 5), ReadBounds(from_sequence=5, to_sequence=5)),
        (EqualNullSafe(NUMBER, 5), ReadBounds(from_sequence=5, to_sequence=5)),
        (GreaterThan(NUMBER, 5), ReadBounds(from_sequence=6)),
        (GreaterThanOrEqual(NUMBER, 5), ReadBounds(from_sequence=5)),
        (LessThan(NUMBER, 5), ReadBounds(to_sequence=4)),
        (LessThanOrEqual(NUMBER, 5), ReadBounds(to_sequence=5)),
    ],
)
def test_numbers_are_a_range_and_spark_does_not_compare_again(
    one: Filter, expected: ReadBounds
) -> None:
    read, left = push(options(), [one])
    assert (read.pushed, left) == (expected, [])


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (GreaterThanOrEqual(TIME, AT), ReadBounds(start_time=AT_MS)),
        (GreaterThanOrEqual(TIME, AT + MICROSECOND), ReadBounds(start_time=AT_MS + 1)),
        (GreaterThan(TIME, AT), ReadBounds(start_time=AT_MS + 1)),
        (GreaterThan(TIME, AT - MICROSECOND), ReadBounds(start_time=AT_MS)),
        (LessThan(TIME, AT), ReadBounds(end_time=AT_MS)),
        (LessThan(TIME, AT + MICROSECOND), ReadBounds(end_time=AT_MS + 1)),
        (LessThanOrEqual(TIME, AT), ReadBounds(end_time=AT_MS + 1)),
        (LessThanOrEqual(TIME, AT - MICROSECOND), ReadBounds(end_time=AT_MS)),
        (EqualTo(TIME, AT), ReadBounds(start_time=AT_MS, end_time=AT_MS + 1)),
        (
            EqualTo(TIME, AT + MICROSECOND),
            ReadBounds(start_time=AT_MS + 1, end_time=AT_MS + 1),
        ),
        (LessThan(TIME, datetime(1900, 1, 1, tzinfo=UTC)), ReadBounds(end_time=0)),
    ],
)
def test_times_are_a_range_of_milliseconds_and_spark_compares_again(
    one: Filter, expected: ReadBounds
) -> None:
    read, left = push(options(), [one])
    assert (read.pushed, left) == (expected, [one])


def test_a_time_may_be_of_any_zone() -> None:
    there = AT.astimezone(timezone(timedelta(hours=5)))
    assert bounds(GreaterThanOrEqual(TIME, there)) == ReadBounds(start_time=AT_MS)


def test_several_filters_narrow_each_other() -> None:
    filters = [GreaterThan(NUMBER, 5), LessThan(NUMBER, 20), GreaterThan(NUMBER, 3)]
    assert bounds(*filters) == ReadBounds(from_sequence=6, to_sequence=19)


def test_states_and_sessions_are_named() -> None:
    given = options(states="active,deferred")
    read, left = push(given, [In(STATE, ("deferred", "scheduled", None))])
    assert (read.states, left) == (("deferred",), [])
    assert push(given, [EqualTo(STATE, "gone")])[0].states == ()
    read, left = push(options(), [In(SESSION, ("a", "b")), EqualTo(SESSION, "b")])
    assert (read.sessions, left) == (("b",), [])
    assert push(options(sessions="x"), [EqualTo(SESSION, "a")])[0].sessions == ()


@pytest.mark.parametrize(
    "one",
    [
        In(NUMBER, (1, 2)),
        EqualTo(NUMBER, True),
        EqualTo(TIME, datetime(2026, 1, 1)),
        EqualTo(TIME, "2026"),
        Not(EqualTo(NUMBER, 5)),
        Not(EqualTo(STATE, "active")),
        EqualNullSafe(SESSION, None),
        IsNotNull(SESSION),
        IsNull(NUMBER),
        EqualTo(SESSION, ""),
        EqualTo(SESSION, "tab\there"),
        In(SESSION, tuple(str(n) for n in range(101))),
        StringStartsWith(SESSION, "a"),
        EqualTo(("subject",), "a"),
        EqualTo(("application_properties", "state"), "active"),
    ],
)
def test_other_filters_are_left_to_spark(one: Filter) -> None:
    given = options()
    assert push(given, [one]) == (given, [one])


def test_columns_that_are_always_there_are_not_null() -> None:
    given = options()
    filters = [IsNotNull(NUMBER), IsNotNull(TIME), IsNotNull(STATE)]
    read, left = push(given, filters)
    # Of times, all is compared again.
    assert (read, left) == (given, [IsNotNull(TIME)])
