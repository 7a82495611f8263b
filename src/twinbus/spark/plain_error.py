"""Errors whose text says all, shown without the way through our code.

Spark shows the traceback of whatever a source raises, above the text. Of a wrong option
or an entity that is gone it says nothing that helps, and hides what does.
"""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class PlainError(Exception):
    """Its text names what is wrong, and the remedy."""


def plainly(function: Callable[P, T]) -> Callable[P, T]:
    """A function that Spark calls: plain errors come without what lies below it."""

    @wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> T:
        try:
            return function(*arguments, **named)
        except PlainError as error:
            raise error.with_traceback(None) from None

    return call


def each_plainly(function: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """The same for one that yields."""

    @wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> Iterator[T]:
        try:
            yield from function(*arguments, **named)
        except PlainError as error:
            raise error.with_traceback(None) from None

    return call
