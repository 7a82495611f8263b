"""The values of rules, and how they compare.

    str   bool   int (64 bits)   float   bytes   UUID   Instant   Duration   None

None is null and also the unknown of three-valued logic: all operators treat both the
same. Only EXISTS distinguishes a null property from a missing one. Numbers compare with
numbers, as C# promotes them; every other type compares only with itself. A comparison
across types is unknown, so neither it nor its negation selects a message. Strings
compare by code points, with case.
"""

from typing import Final, final
from uuid import UUID


@final
class Missing:
    """The type of MISSING."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()
"""The value of a property that a message does not have."""


@final
class Instant:
    """A point in time, in epoch milliseconds."""

    def __init__(self, at: int) -> None:
        self.at: int = at

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Instant) and self.at == other.at

    def __hash__(self) -> int:
        return hash(self.at)

    def __repr__(self) -> str:
        return f"Instant({self.at})"


@final
class Duration:
    """A span of time, in milliseconds; may be negative."""

    def __init__(self, ms: int) -> None:
        self.ms: int = ms

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and self.ms == other.ms

    def __hash__(self) -> int:
        return hash(self.ms)

    def __repr__(self) -> str:
        return f"Duration({self.ms})"


# Results of comparing two values.
LESS: Final = -1
EQUAL: Final = 0
GREATER: Final = 1
DIFFERENT: Final = 2  # not equal, and without an order
UNORDERED: Final = 3  # one is NaN: not equal, not less, not greater
UNKNOWN: Final = 4  # null, or of types that do not compare


def compare(left: object, right: object) -> int:
    """One of LESS, EQUAL, GREATER, DIFFERENT, UNORDERED and UNKNOWN."""
    if isinstance(left, str):
        return _order_texts(left, right) if isinstance(right, str) else UNKNOWN
    if isinstance(left, bool):
        return _sameness(left, right) if isinstance(right, bool) else UNKNOWN
    if isinstance(left, int | float):
        return _compare_numbers(left, right)
    if isinstance(left, Instant):
        return _order(left.at, right.at) if isinstance(right, Instant) else UNKNOWN
    if isinstance(left, Duration):
        return _order(left.ms, right.ms) if isinstance(right, Duration) else UNKNOWN
    if isinstance(left, UUID):
        return _sameness(left, right) if isinstance(right, UUID) else UNKNOWN
    if isinstance(left, bytes):
        return _sameness(left, right) if isinstance(right, bytes) else UNKNOWN
    return UNKNOWN


def _compare_numbers(left: int | float, right: object) -> int:
    if isinstance(right, bool) or not isinstance(right, int | float):
        return UNKNOWN
    if isinstance(left, int) and isinstance(right, int):
        return _order(left, right)
    # As in C#, an integer is converted to a double, exactly or not.
    return _order_doubles(float(left), float(right))


def _order(left: int, right: int) -> int:
    if left == right:
        return EQUAL
    return LESS if left < right else GREATER


def _order_doubles(left: float, right: float) -> int:
    if left == right:
        return EQUAL
    if left < right:
        return LESS
    return GREATER if left > right else UNORDERED


def _order_texts(left: str, right: str) -> int:
    if left == right:
        return EQUAL
    return LESS if left < right else GREATER


def _sameness(left: object, right: object) -> int:
    return EQUAL if left == right else DIFFERENT


def identity_key(value: object) -> object | None:
    """A key that is equal for equal values of one type; None for values that equal
    nothing. Integers of all widths are one type; 1, 1.0 and true are three."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, int):
        return ("integer", value)
    if isinstance(value, float):
        return ("double", value)
    if isinstance(value, bytes):
        return value
    return _key_of_others(value)


def _key_of_others(value: object) -> object | None:
    # Not the bare value, because an author of rules could choose many with the same
    # hash. Hashes of texts, and of tuples with a text, differ in every process.
    if isinstance(value, UUID):
        return ("uuid", value.bytes)
    if isinstance(value, Instant):
        return ("instant", value.at)
    if isinstance(value, Duration):
        return ("duration", value.ms)
    return None


def equality_key(value: object) -> object | None:
    """A key that is the same for all values that `compare` calls equal; None for values
    that equal nothing."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return ("number", float(value))
    return identity_key(value)
