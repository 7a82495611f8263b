"""How a check says what it expected: by the rule, not by the line.

`assert` would be silent about values outside of a test runner and absent under -O.
"""

from collections.abc import Iterator
from contextlib import contextmanager


def expect(actual: object, expected: object, rule: str) -> None:
    """Raises AssertionError if the two differ."""
    if actual != expected:
        raise AssertionError(f"{rule}: expected {expected!r}, got {actual!r}")


@contextmanager
def refused(error: type[Exception], rule: str) -> Iterator[None]:
    """What is inside must raise that error."""
    try:
        yield
    except error:
        return
    raise AssertionError(f"{rule}: expected {error.__name__}, nothing was raised")
