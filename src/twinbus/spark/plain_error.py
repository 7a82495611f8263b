"""Errors that are shown without a traceback of our code.

Spark shows the traceback of an error above its text. For a wrong option or a missing
entity, the traceback does not help, and hides the text, which does.
"""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class PlainError(Exception):
    """Its text names what is wrong, and the remedy."""


def plainly(function: Callable[P, T]) -> Callable[P, T]:
    """For a function that Spark calls: cut the tracebacks of plain errors."""

    @wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> T:
        try:
            return function(*arguments, **named)
        except PlainError as error:
            raise error.with_traceback(None) from None

    return call


def each_plainly(function: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """The same for a generator."""

    @wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> Iterator[T]:
        try:
            yield from function(*arguments, **named)
        except PlainError as error:
            raise error.with_traceback(None) from None

    return call
