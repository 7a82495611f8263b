"""What a diverted message carries, and how it is read back: the names of P9.

On its way through a backlog queue a message must neither expire, nor be scheduled, nor
belong to a session, and the queue is shared by many entities. So these properties
travel as application properties, and the message gets them back on the primary.

If an application has properties of the same names, they are renamed meanwhile. A syphon
of another make does not know this, and leaves them renamed, which does no harm.

Pure: it reads and writes mappings; adapters and Spark know the messages.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from twinbus.durations import duration_ms, iso_duration
from twinbus.instants import instant_ms, instant_of

PATH: Final = "x-ms-path"
SESSION_ID: Final = "x-ms-sessionid"
TIME_TO_LIVE: Final = "x-ms-timetolive"
SCHEDULED: Final = "x-ms-scheduledenqueuetimeutc"

OWN_PREFIX: Final = "x-twinbus-own-"
"""Before the name of an application's own property of one of these names."""

SEND_ID: Final = "x-opt-twinbus-send-id"
RESTORED_FROM: Final = "x-opt-twinbus-restored-from"
"""Message annotations: what the ledgers of a twinbus primary go by."""

PARTITION_KEY: Final = "x-opt-partition-key"
KEY_ADDED: Final = "x-opt-twinbus-key-added"
"""Message annotations. A diverted message of a session has the session id as its
partition key, so that a partitioned backlog queue keeps the order of the session. The
second one tells that the message had no partition key before."""

_NAMES: Final = (PATH, SESSION_ID, TIME_TO_LIVE, SCHEDULED)
_RESERVED: Final = re.compile(f"(?:{OWN_PREFIX})*(?:{'|'.join(_NAMES)})")
_TICKS_PER_MS: Final = 10_000
_TIME_SPAN: Final = re.compile(
    r"(?:(\d+)\.)?(\d{1,2}):(\d{2}):(\d{2})(?:\.(\d{1,7}))?", re.ASCII
)

_LATEST_MS: Final = 253_402_300_799_999
"""The end of the year 9999: the latest instant that every client can express."""

_SHOWN_CHARACTERS: Final = 100
"""How much of an unreadable value goes into an error: anybody may have sent it."""


class DetourError(ValueError):
    """A message in a backlog queue does not say how it is to be restored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detour:
    """Where a diverted message belongs, and the properties it had before."""

    path: str
    session_id: str | None = None
    # None: it has none of its own.
    time_to_live_ms: int | None = None
    # In milliseconds since the epoch.
    scheduled_at: int | None = None


def diverted_properties(
    properties: Mapping[str, object], detour: Detour
) -> dict[str, object]:
    """Application properties of the diverted copy."""
    diverted = {
        (OWN_PREFIX + name if _RESERVED.fullmatch(name) else name): value
        for name, value in properties.items()
    }
    diverted[PATH] = detour.path
    if detour.session_id is not None:
        diverted[SESSION_ID] = detour.session_id
    if detour.time_to_live_ms is not None:
        diverted[TIME_TO_LIVE] = iso_duration(detour.time_to_live_ms)
    if detour.scheduled_at is not None:
        diverted[SCHEDULED] = instant_of(detour.scheduled_at)
    return diverted


def restored_properties(properties: Mapping[str, object]) -> dict[str, object]:
    """Application properties as they were before the detour."""
    restored: dict[str, object] = {}
    for name, value in properties.items():
        if name not in _NAMES:
            is_kept = name.startswith(OWN_PREFIX) and _RESERVED.fullmatch(name)
            restored[name.removeprefix(OWN_PREFIX) if is_kept else name] = value
    return restored


def read_detour(properties: Mapping[str, object]) -> Detour:
    """Read the application properties of a diverted message. Raises DetourError."""
    path = properties.get(PATH)
    if not isinstance(path, str) or not path.strip("/"):
        raise DetourError(f"The message has no '{PATH}': nobody knows where it goes.")
    session_id = properties.get(SESSION_ID)
    if session_id is not None and not isinstance(session_id, str):
        raise DetourError(f"'{SESSION_ID}' is not a text.")
    return Detour(
        path=path.strip("/"),
        session_id=session_id,
        time_to_live_ms=_time_to_live_ms(properties.get(TIME_TO_LIVE)),
        scheduled_at=_instant_ms(properties.get(SCHEDULED)),
    )


def _time_to_live_ms(value: object) -> int | None:
    """From an ISO 8601 duration, ticks, a timespan, or its text."""
    if value is None:
        return None
    try:
        if isinstance(value, int) and not isinstance(value, bool):
            return duration_ms(timedelta(milliseconds=value // _TICKS_PER_MS))
        span = _TIME_SPAN.fullmatch(value) if isinstance(value, str) else None
        if span is None:
            return duration_ms(value)
        days, hours, minutes, seconds, ticks = (part or "0" for part in span.groups())
        return duration_ms(
            timedelta(
                days=int(days),
                hours=int(hours),
                minutes=int(minutes),
                seconds=int(seconds),
                microseconds=int(ticks.ljust(7, "0")) // 10,
            )
        )
    except (ValueError, OverflowError):
        text = f"'{TIME_TO_LIVE}' is not a duration: {_shown(value)}."
        raise DetourError(text) from None


def _instant_ms(value: object) -> int | None:
    """From a timestamp, as an instant or in milliseconds since the epoch."""
    if value is None:
        return None
    if isinstance(value, datetime):
        return instant_ms(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if 0 < value <= _LATEST_MS:
            return value
    raise DetourError(f"'{SCHEDULED}' is not a timestamp: {_shown(value)}.")


def _shown(value: object) -> str:
    text = repr(value)
    is_short = len(text) <= _SHOWN_CHARACTERS
    return text if is_short else f"{text[:_SHOWN_CHARACTERS]}..."


def restored_from(sequence_number: int, generation: int, source: str) -> str:
    """The annotation by which a primary knows what it has restored already."""
    return f"{sequence_number}@{generation}@{source}"
