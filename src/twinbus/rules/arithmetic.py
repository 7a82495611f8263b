"""Arithmetic of rules: C# promotions, 64-bit integers, overflows are errors.

Integers stay integers, and their division truncates; a double on either side makes both
doubles. Strings are concatenated by +; times and durations are added as in .NET. Null
on either side, or types that do not fit together, give null. Where C# would throw
(integer division by zero, a result beyond 64 bits), FilterError is raised; also for a
text longer than all properties of a message may be.
"""

import math
from typing import Final

from twinbus.limits import PROPERTIES_BYTES
from twinbus.rules.filter_error import FilterError
from twinbus.rules.values import Duration, Instant

ADD: Final = "+"
SUBTRACT: Final = "-"
MULTIPLY: Final = "*"
DIVIDE: Final = "/"
REMAINDER: Final = "%"

INTEGER_LOWEST: Final = -(1 << 63)
INTEGER_HIGHEST: Final = (1 << 63) - 1


def calculate(operator: str, left: object, right: object) -> object:
    """The value of `left operator right`. Raises FilterError."""
    if left is None or right is None:
        return None
    if isinstance(left, bool) or isinstance(right, bool):
        return None
    if isinstance(left, int) and isinstance(right, int):
        return checked_integer(_integers(operator, left, right))
    if isinstance(left, int | float) and isinstance(right, int | float):
        return _doubles(operator, float(left), float(right))
    if operator == ADD and isinstance(left, str) and isinstance(right, str):
        return _concatenation(left, right)
    if operator == ADD or operator == SUBTRACT:
        return _times(operator, left, right)
    return None


def negative(value: object) -> object:
    """The value with the other sign; null if it is not a number. Raises FilterError."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return checked_integer(-value)
    if isinstance(value, float):
        return -value
    if isinstance(value, Duration):
        return Duration(-value.ms)
    return None


def checked_integer(value: int) -> int:
    if INTEGER_LOWEST <= value <= INTEGER_HIGHEST:
        return value
    raise FilterError("The result of an integer operation does not fit into 64 bits.")


def _integers(operator: str, left: int, right: int) -> int:
    if operator == ADD:
        return left + right
    if operator == SUBTRACT:
        return left - right
    if operator == MULTIPLY:
        return left * right
    if right == 0:
        raise FilterError(f"The integer {left} is divided by zero.")
    # C# truncates towards zero; the remainder has the sign of the dividend.
    quotient = abs(left) // abs(right)
    if (left < 0) != (right < 0):
        quotient = -quotient
    return quotient if operator == DIVIDE else left - quotient * right


def _doubles(operator: str, left: float, right: float) -> float:
    if operator == ADD:
        return left + right
    if operator == SUBTRACT:
        return left - right
    if operator == MULTIPLY:
        return left * right
    if operator == DIVIDE:
        return _quotient(left, right)
    if math.isinf(left) or right == 0.0:
        return math.nan
    return math.fmod(left, right)


def _quotient(left: float, right: float) -> float:
    """IEEE 754 division; in Python, division by zero raises."""
    if right != 0.0:
        return left / right
    if left == 0.0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _concatenation(left: str, right: str) -> str:
    length = len(left) + len(right)
    if length > PROPERTIES_BYTES:
        raise FilterError(
            f"A concatenated text has {length} characters; a message's properties "
            f"have at most {PROPERTIES_BYTES} bytes."
        )
    return left + right


def _times(operator: str, left: object, right: object) -> object:
    """Sums and differences with times and durations; None for all others."""
    sign = 1 if operator == ADD else -1
    if isinstance(right, Duration):
        if isinstance(left, Duration):
            return Duration(checked_integer(left.ms + sign * right.ms))
        if isinstance(left, Instant):
            return Instant(checked_integer(left.at + sign * right.ms))
    if operator == SUBTRACT and isinstance(left, Instant):
        if isinstance(right, Instant):
            return Duration(checked_integer(left.at - right.at))
    return None
