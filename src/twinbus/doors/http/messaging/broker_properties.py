"""The JSON of a sender's BrokerProperties: what a message is to the bus.

Names are compared ignoring case. Those that nobody can set, and unknown ones, are
ignored, as in the service. What their values may be is decided where all messages are
checked; here they get their types.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from twinbus.doors.http.messaging.http_times import read_http_time, read_time_span
from twinbus.errors import ArgumentError

HEADER: Final = "brokerproperties"

_LONGEST_SECONDS: Final = 922_337_203_685
"""The longest duration of .NET; a message with it does not expire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerProperties:
    """None or 0: not set."""

    message_id: str | None = None
    correlation_id: str | None = None
    session_id: str | None = None
    label: str | None = None
    reply_to: str | None = None
    reply_to_session_id: str | None = None
    to: str | None = None
    content_type: str | None = None
    partition_key: str | None = None
    via_partition_key: str | None = None
    time_to_live_ms: int = 0
    scheduled_at: int = 0


NONE_SET: Final = BrokerProperties()


def broker_properties(content: Mapping[str, object]) -> BrokerProperties:
    """Raises ArgumentError."""
    given = {
        name.lower(): (name, value)
        for name, value in content.items()
        if value is not None
    }
    return BrokerProperties(
        message_id=_text(given, "messageid"),
        correlation_id=_text(given, "correlationid"),
        session_id=_text(given, "sessionid"),
        label=_text(given, "label"),
        reply_to=_text(given, "replyto"),
        reply_to_session_id=_text(given, "replytosessionid"),
        to=_text(given, "to"),
        content_type=_text(given, "contenttype"),
        partition_key=_text(given, "partitionkey"),
        via_partition_key=_text(given, "viapartitionkey"),
        time_to_live_ms=_time_to_live_ms(given),
        scheduled_at=_scheduled_at(given),
    )


_Given = Mapping[str, tuple[str, object]]
"""Names as they were written and values, by lower-case name."""


def _text(given: _Given, key: str) -> str | None:
    if key not in given:
        return None
    name, value = given[key]
    if not isinstance(value, str):
        raise ArgumentError.about(name, value=_shown(value), expected="a text")
    return value


def _time_to_live_ms(given: _Given) -> int:
    """0 if the message does not expire."""
    span = _text(given, "timetolivetimespan")
    if span is not None:
        lasting_ms = read_time_span(span, "TimeToLiveTimeSpan")
    elif "timetolive" in given:
        lasting_ms = _seconds_ms(*given["timetolive"])
    else:
        return 0
    if lasting_ms <= 0:
        raise ArgumentError.about(
            "TimeToLive", value=lasting_ms / 1000, expected="seconds, more than 0"
        )
    return 0 if lasting_ms >= _LONGEST_SECONDS * 1000 else lasting_ms


def _seconds_ms(name: str, value: object) -> int:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(float(str(value))):
        raise ArgumentError.about(name, value=_shown(value), expected="seconds")
    assert isinstance(value, int | float)
    return round(min(value, _LONGEST_SECONDS) * 1000)


def _scheduled_at(given: _Given) -> int:
    text = _text(given, "scheduledenqueuetimeutc")
    return 0 if text is None else read_http_time(text, "ScheduledEnqueueTimeUtc")


def _shown(value: object) -> object:
    return str(value)[:60]
