"""A received message as JSON.

It has the names of Spark's columns, without those that are null. What was received can
be sent again with its types: where a text does not give back a body, `raw` is there,
too.
"""

from base64 import b64encode
from typing import Any, Final

from twinbus.amqp.codec import decode
from twinbus.amqp.errors import DecodeError
from twinbus.broker.message import Message
from twinbus.encoding.columns import MessageColumns
from twinbus.encoding.layout import HEADER, MESSAGE_ANNOTATIONS, PROPERTIES
from twinbus.encoding.sections import canonical, find_sections
from twinbus.instants import instant_of

TEXTS: Final = (
    *("message_id", "session_id", "partition_key", "correlation_id", "subject", "to"),
    *("reply_to", "reply_to_session_id", "content_type"),
)
"""Fields that senders set and that are texts."""

ONLY_RAW: Final = ("value", "sequence", "sections", "unreadable")
"""Types of bodies that only the bytes of the message give back."""

REASON: Final = "DeadLetterReason"
DESCRIPTION: Final = "DeadLetterErrorDescription"
"""Application properties that the bus adds to dead letters."""

_COLUMNS: Final = (
    *TEXTS,
    *("application_properties", "application_property_types", "body", "amqp_types"),
)
_STATES: Final = ("active", "deferred", "scheduled")

_TTL, _DELIVERY_COUNT = 2, 4
"""Indexes among the fields of a header."""

_EXPIRES, _CREATED = 8, 9
"""Indexes among the properties."""

_LATEST_MS: Final = 253_402_300_799_999
"""The end of the year 9999: later than any calendar goes."""


def message_json(payload: bytes, *, has_raw: bool = False) -> dict[str, Any]:
    """The message in these bytes. What is malformed in it is left out; `raw` has it."""
    try:
        payload = canonical(payload)
        sections = find_sections(payload)
    except DecodeError:
        sections = {}
    columns = MessageColumns(_COLUMNS)
    columns.extend([Message(payload, 0, 0, 0)], [0])
    [values] = zip(*columns.columns.values(), strict=True)
    row = dict(zip(columns.columns, values, strict=True))
    shown = _of_the_bus(payload, sections)
    shown |= {name: row[name] for name in TEXTS if row[name] is not None}
    _add_properties(shown, row)
    _add_body(shown, row["body"])
    types = dict(row["amqp_types"] or ())
    if types:
        shown["amqp_types"] = types
    if has_raw or types.get("body") in ONLY_RAW:
        shown["raw"] = b64encode(payload).decode()
    return shown


def _add_properties(shown: dict[str, Any], row: dict[str, Any]) -> None:
    properties = dict(row["application_properties"])
    types = dict(row["application_property_types"] or ())
    for name, known in (
        (REASON, "dead_letter_reason"),
        (DESCRIPTION, "dead_letter_description"),
    ):
        if "dead_letter_source" in shown and name in properties:
            text = properties.pop(name)
            types.pop(name, None)
            if text is not None:
                shown[known] = text
    if properties:
        shown["application_properties"] = properties
    if types:
        shown["application_property_types"] = types


def _add_body(shown: dict[str, Any], body: bytes | None) -> None:
    if body is None:
        return
    try:
        shown["body"] = body.decode()
    except UnicodeDecodeError:
        shown["body_base64"] = b64encode(body).decode()


def _of_the_bus(payload: bytes, sections: dict[int, tuple[int, int]]) -> dict[str, Any]:
    annotations = _decoded(payload, sections, MESSAGE_ANNOTATIONS)
    header = _decoded(payload, sections, HEADER)
    found: dict[str, Any] = {}
    if isinstance(annotations, dict):
        _add_annotations(found, annotations)
    if isinstance(header, list):
        _add_number(found, "delivery_count", header, _DELIVERY_COUNT)
        _add_number(found, "time_to_live_ms", header, _TTL)
    _add_expiry(found, _decoded(payload, sections, PROPERTIES))
    return found


def _add_annotations(found: dict[str, Any], annotations: dict[Any, Any]) -> None:
    number = annotations.get("x-opt-sequence-number")
    if isinstance(number, int):
        found["sequence_number"] = int(number)
    for name, key in (
        ("enqueued_time", "x-opt-enqueued-time"),
        ("locked_until", "x-opt-locked-until"),
        ("scheduled_time", "x-opt-scheduled-enqueue-time"),
    ):
        at = annotations.get(key)
        if isinstance(at, int) and 0 < at <= _LATEST_MS:
            found[name] = _instant(at)
    state = annotations.get("x-opt-message-state")
    if isinstance(state, int) and 0 <= state < len(_STATES):
        found["state"] = _STATES[state]
    source = annotations.get("x-opt-deadletter-source")
    if isinstance(source, str):
        found["dead_letter_source"] = str(source)


def _add_number(found: dict[str, Any], name: str, fields: list[Any], at: int) -> None:
    if at < len(fields) and isinstance(fields[at], int):
        found[name] = int(fields[at])


def _add_expiry(found: dict[str, Any], properties: object) -> None:
    """The expiry time, and from it a time to live that is too long for a header."""
    if not isinstance(properties, list) or len(properties) <= _EXPIRES:
        return
    expires = properties[_EXPIRES]
    if isinstance(expires, int) and 0 < expires <= _LATEST_MS:
        found["expires_at"] = _instant(expires)
        created = properties[_CREATED] if len(properties) > _CREATED else None
        if isinstance(created, int) and expires - created >= 1 << 32:
            found["time_to_live_ms"] = int(expires - created)


def _decoded(payload: bytes, sections: dict[int, tuple[int, int]], code: int) -> object:
    if code not in sections:
        return None
    try:
        value, _ = decode(payload, sections[code][0])
    except DecodeError:
        return None
    return value


def _instant(at: int) -> str:
    return instant_of(at).isoformat(timespec="milliseconds")
