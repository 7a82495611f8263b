"""Times and durations as the service's REST interface writes them."""

import re
from datetime import datetime
from email.utils import formatdate, parsedate_to_datetime
from typing import Final

from twinbus.errors import ArgumentError
from twinbus.instants import instant_ms

_LATEST: Final = 253_402_300_799_000
"""The last second of the year 9999: later instants have no date."""

_SPAN: Final = re.compile(
    r"(?:(\d{1,8})\.)?(\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,7}))?", re.ASCII
)


def http_time(at: int) -> str:
    """An instant in the form of RFC 1123, which has whole seconds."""
    return formatdate(min(max(at, 0), _LATEST) // 1000, usegmt=True)


def read_http_time(text: str, name: str) -> int:
    """An instant in the form of RFC 1123 or ISO 8601. Raises ArgumentError."""
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            return instant_ms(read(text))
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
    raise ArgumentError.about(
        name, value=text[:60], expected="a time such as 'Fri, 04 Jul 2014 22:34:06 GMT'"
    )


def read_time_span(text: str, name: str) -> int:
    """Milliseconds of a duration such as `1.02:03:04.5`. Raises ArgumentError."""
    match = _SPAN.fullmatch(text)
    if match is None:
        raise ArgumentError.about(
            name, value=text[:60], expected="a duration such as '00:01:30'"
        )
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[:4])
    fraction_ms = int((match[5] or "0").ljust(7, "0")) // 10_000
    hours += 24 * days
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + fraction_ms
