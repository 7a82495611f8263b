"""Filters of a query that the bus applies, so that other messages are not moved.

    sequence_number   =  <  <=  >  >=          a range
    enqueued_time     =  <  <=  >  >=          a range; Spark compares again
    state, session_id =  IN                    which messages of the range

Other filters, and other values, are left to Spark.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from twinbus.limits import BULK_SESSIONS
from twinbus.spark.read_options import ReadBounds, ReadOptions, is_session_id

_ALWAYS_THERE: Final = ("sequence_number", "enqueued_time", "state", "entity")
_EQUALS: Final = (EqualTo, EqualNullSafe)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def push(
    options: ReadOptions, filters: Sequence[Filter]
) -> tuple[ReadOptions, list[Filter]]:
    """The options, narrowed, and the filters that Spark still has to apply."""
    left: list[Filter] = []
    for one in filters:
        narrowed = _narrowed(options, one)
        if narrowed is not None:
            options = narrowed
        # Times are compared again: they only say where a range begins and ends.
        if narrowed is None or _column(one) == "enqueued_time":
            left.append(one)
    return options, left


def _column(one: Filter) -> str:
    path: tuple[str, ...] = getattr(one, "attribute", ())
    return path[0].lower() if len(path) == 1 else ""


def _narrowed(options: ReadOptions, one: Filter) -> ReadOptions | None:
    """None if the bus does not apply this filter."""
    column = _column(one)
    if isinstance(one, IsNotNull):
        return options if column in _ALWAYS_THERE else None
    if column in ("sequence_number", "enqueued_time"):
        make = _numbers if column == "sequence_number" else _times
        bounds = make(one)
        if bounds is None:
            return None
        return replace(options, pushed=options.pushed.narrowed(bounds))
    texts = _texts(one)
    if column == "state" and texts is not None:
        states = tuple(state for state in options.states if state in texts)
        return replace(options, states=states)
    if column == "session_id" and texts is not None:
        return _of_sessions(options, texts)
    return None


def _of_sessions(options: ReadOptions, texts: Iterable[str]) -> ReadOptions | None:
    wanted = tuple(dict.fromkeys(texts))
    if options.sessions is not None:
        wanted = tuple(name for name in wanted if name in options.sessions)
    if len(wanted) > BULK_SESSIONS or not all(map(is_session_id, wanted)):
        return None
    return replace(options, sessions=wanted)


def _texts(one: Filter) -> list[str] | None:
    values: Sequence[object] = ()
    if isinstance(one, _EQUALS):
        values = (one.value,)
    elif isinstance(one, In):
        # A null in the list matches nothing.
        values = [value for value in one.value if value is not None]
        if not values:
            return []
    texts = [value for value in values if isinstance(value, str)]
    return texts if texts and len(texts) == len(values) else None


def _numbers(one: Filter) -> ReadBounds | None:
    value = getattr(one, "value", None)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    if isinstance(one, _EQUALS):
        return ReadBounds(from_sequence=value, to_sequence=value)
    if isinstance(one, GreaterThan):
        return ReadBounds(from_sequence=value + 1)
    if isinstance(one, GreaterThanOrEqual):
        return ReadBounds(from_sequence=value)
    if isinstance(one, LessThan):
        return ReadBounds(to_sequence=value - 1)
    if isinstance(one, LessThanOrEqual):
        return ReadBounds(to_sequence=value)
    return None


def _times(one: Filter) -> ReadBounds | None:
    """Messages have whole milliseconds; Spark has microseconds."""
    value = getattr(one, "value", None)
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    # None of them is older than 1970, where the times of a bus begin.
    reached = max(0, -((_EPOCH - value) // _MILLISECOND))
    passed = max(0, (value - _EPOCH) // _MILLISECOND + 1)
    if isinstance(one, _EQUALS):
        return ReadBounds(start_time=reached, end_time=passed)
    if isinstance(one, GreaterThan):
        return ReadBounds(start_time=passed)
    if isinstance(one, GreaterThanOrEqual):
        return ReadBounds(start_time=reached)
    if isinstance(one, LessThan):
        return ReadBounds(end_time=reached)
    if isinstance(one, LessThanOrEqual):
        return ReadBounds(end_time=passed)
    return None
