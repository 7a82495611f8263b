"""Values in rules: parameters, and the properties of a correlation filter.

A client that reads a rule gets each value with the type and text it was given, so both
are kept beside the value. Types have the names of XML Schema, because administration
clients use them.
"""

import math
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, final
from uuid import UUID

from twinbus.errors import ArgumentError
from twinbus.limits import RULE_VALUE_CHARACTERS
from twinbus.rules.values import Duration, Instant

_DURATION: Final = re.compile(
    r"(-)?P(?:(\d{1,8})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?"
    r"(?:(\d{1,12})(?:\.(\d{1,9}))?S)?)?",
    re.ASCII,
)

_DURATION_MS_HIGHEST: Final = ((1 << 63) - 1) // 10_000
"""The longest TimeSpan of .NET, a 64-bit number of tenths of microseconds."""

_WIDTHS: Final = {
    "byte": (-(1 << 7), (1 << 7) - 1),
    "short": (-(1 << 15), (1 << 15) - 1),
    "int": (-(1 << 31), (1 << 31) - 1),
    "long": (-(1 << 63), (1 << 63) - 1),
    "unsignedByte": (0, (1 << 8) - 1),
    "unsignedShort": (0, (1 << 16) - 1),
    "unsignedInt": (0, (1 << 32) - 1),
    "unsignedLong": (0, (1 << 64) - 1),
}


@final
class TypedValue:
    """A value with its type and text; immutable."""

    def __init__(self, type_name: str, text: str, value: object) -> None:
        self.type_name: str = type_name
        self.text: str = text
        self.value: object = value

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TypedValue)
            and self.type_name == other.type_name
            and self.text == other.text
        )

    def __hash__(self) -> int:
        return hash((self.type_name, self.text))

    def __repr__(self) -> str:
        return f"TypedValue({self.type_name!r}, {self.text!r})"


def typed_value(type_name: str, text: str) -> TypedValue:
    """Parse `text` as a value of one of TYPES. Raises ArgumentError."""
    reader = _READERS.get(type_name)
    if reader is None:
        raise ArgumentError.about(
            "type of a rule's value",
            value=type_name,
            expected=f"one of {', '.join(TYPES)}",
        )
    if len(text) > RULE_VALUE_CHARACTERS:
        raise ArgumentError(
            f"A value of a rule has {len(text)} characters; at most "
            f"{RULE_VALUE_CHARACTERS} are allowed."
        )
    try:
        value = reader(text)
    except ValueError:
        raise ArgumentError.about(
            "value of a rule", value=text, expected=f"a value of type {type_name}"
        ) from None
    if type_name in _WIDTHS and isinstance(value, int):
        _check_width(type_name, value)
    return TypedValue(type_name, text, value)


def typed(value: object) -> TypedValue:
    """A value in the type that fits it best. Raises ArgumentError."""
    if isinstance(value, TypedValue):
        return value
    if isinstance(value, str):
        return typed_value("string", str(value))
    if isinstance(value, bool):
        return typed_value("boolean", "true" if value else "false")
    if isinstance(value, int):
        return typed_value("long", str(int(value)))
    if isinstance(value, float):
        return typed_value("double", double_text(float(value)))
    if isinstance(value, UUID):
        return typed_value("guid", str(value))
    if isinstance(value, bytes):
        return typed_value("base64Binary", b64encode(value).decode())
    if isinstance(value, Instant):
        return typed_value("dateTime", instant_text(value.at))
    if isinstance(value, Duration):
        return typed_value("duration", duration_text(value.ms))
    raise ArgumentError.about(
        "value of a rule", value=value, expected=f"one of {', '.join(TYPES)}"
    )


def _check_width(type_name: str, value: int) -> None:
    lowest, highest = _WIDTHS[type_name]
    if not lowest <= value <= highest:
        raise ArgumentError.about(
            "value of a rule",
            value=value,
            expected=f"{type_name}: a number from {lowest} to {highest}",
        )


def _integer(text: str) -> object:
    if len(text) > 20 or not text.isascii():
        raise ValueError(text)
    return int(text)


def _double(text: str) -> object:
    named = {"INF": math.inf, "-INF": -math.inf, "NaN": math.nan}
    known = named.get(text)
    return float(text) if known is None else known


def _boolean(text: str) -> object:
    lower = text.lower()
    if lower not in ("true", "false", "1", "0"):
        raise ValueError(text)
    return lower in ("true", "1")


def _text(text: str) -> object:
    return text


def _instant(text: str) -> object:
    moment = datetime.fromisoformat(_microseconds(text))
    if moment.tzinfo is None:
        # A time without a zone is UTC, as everywhere in the service.
        moment = moment.replace(tzinfo=UTC)
    return Instant((moment - _EPOCH) // _MILLISECOND)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = datetime(1, 1, 1, microsecond=1000) - datetime(1, 1, 1)


def _microseconds(text: str) -> str:
    """.NET writes seven digits of a second; Python reads six."""
    return re.sub(r"(\.\d{6})\d+", r"\1", text)


def _duration(text: str) -> object:
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()[1:]) or text.endswith("T"):
        raise ValueError(text)
    days, hours, minutes, seconds = [int(match[i] or 0) for i in (2, 3, 4, 5)]
    fraction_ms = int((match[6] or "0").ljust(3, "0")[:3])
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    ms = total * 1000 + fraction_ms
    if ms > _DURATION_MS_HIGHEST:
        raise ValueError(text)
    return Duration(-ms if match[1] else ms)


def _binary(text: str) -> object:
    return b64decode(text, validate=True)


_READERS: Final[dict[str, Callable[[str], object]]] = {
    "string": _text,
    "boolean": _boolean,
    **dict.fromkeys(_WIDTHS, _integer),
    "double": _double,
    "float": _double,
    "dateTime": _instant,
    "duration": _duration,
    "guid": UUID,
    "base64Binary": _binary,
}

TYPES: Final = tuple(_READERS)


def double_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "INF" if value > 0 else "-INF"
    return repr(value)


def instant_text(at: int) -> str:
    """ISO 8601 in UTC; times beyond the year 9999 are written as milliseconds."""
    try:
        moment = _EPOCH + at * _MILLISECOND
    except OverflowError:
        return f"{at}ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def duration_text(ms: int) -> str:
    seconds, rest_ms = divmod(abs(ms), 1000)
    days, seconds = divmod(seconds, 86_400)
    hours, seconds = divmod(seconds, 3600)
    minutes, seconds = divmod(seconds, 60)
    fraction = f".{rest_ms:03d}" if rest_ms else ""
    sign = "-" if ms < 0 else ""
    return f"{sign}P{days}DT{hours}H{minutes}M{seconds}{fraction}S"
