"""A received message as a response: body, properties, and what the bus says of it."""

import json
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote
from uuid import UUID

from twinbus.amqp.codec import decode
from twinbus.amqp.errors import DecodeError
from twinbus.broker.message import ACTIVE, DEFERRED, SCHEDULED
from twinbus.doors.http.messaging.custom_headers import BODY_KIND, property_headers
from twinbus.doors.http.messaging.http_times import http_time
from twinbus.doors.http.messaging.messaging_path import token_text
from twinbus.doors.http.messaging.received_body import received_body
from twinbus.doors.http.response import HttpResponse
from twinbus.encoding.layout import (
    APPLICATION_PROPERTIES,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
)
from twinbus.encoding.sections import find_sections
from twinbus.operations.received_message import ReceivedMessage

_BROKER_PROPERTIES: Final = "BrokerProperties"

_STATES: Final = {ACTIVE: "Active", DEFERRED: "Deferred", SCHEDULED: "Scheduled"}

_UNLIMITED_SECONDS: Final = 922_337_203_685.4775
"""The time to live of a message that does not expire, as the service shows it."""

_SHOWABLE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
"""What can be the value of a header."""

_TTL, _DELIVERY_COUNT = 2, 4
"""Indexes among the fields of the header."""

_EXPIRES, _CREATED, _CONTENT_TYPE = 8, 9, 6
"""Indexes among the properties."""

_TEXTS: Final = {
    "MessageId": 0,
    "To": 2,
    "Label": 3,
    "ReplyTo": 4,
    "CorrelationId": 5,
    "ContentType": _CONTENT_TYPE,
    "SessionId": 10,
    "ReplyToSessionId": 12,
}
_ANNOTATED_TEXTS: Final = {
    "PartitionKey": "x-opt-partition-key",
    "ViaPartitionKey": "x-opt-via-partition-key",
    "DeadLetterSource": "x-opt-deadletter-source",
}
_ANNOTATED_TIMES: Final = {
    "EnqueuedTimeUtc": "x-opt-enqueued-time",
    "LockedUntilUtc": "x-opt-locked-until",
    "ScheduledEnqueueTimeUtc": "x-opt-scheduled-enqueue-time",
}


def received_response(message: ReceivedMessage, address: str) -> HttpResponse:
    """`address` is the URL of the entity's messages."""
    encoded = message.encoded
    sections = find_sections(encoded)
    properties = _list(encoded, sections, PROPERTIES)
    application = _map(encoded, sections, APPLICATION_PROPERTIES)
    body = received_body(encoded, sections)
    headers = property_headers(application)
    content_type = _field(properties, _CONTENT_TYPE)
    if isinstance(content_type, str) and _SHOWABLE.fullmatch(content_type):
        headers["content-type"] = str(content_type)
    elif body.is_json:
        headers["content-type"] = "application/json"
    if body.kind:
        headers[BODY_KIND] = body.kind
    shown = _broker_properties(
        message,
        _list(encoded, sections, HEADER),
        _map(encoded, sections, MESSAGE_ANNOTATIONS),
        properties,
    )
    headers[_BROKER_PROPERTIES] = json.dumps(shown, separators=(",", ":"))
    if not message.lock_token:
        return HttpResponse(status=200, body=body.content, headers=headers)
    number, token = message.sequence_number, token_text(message.lock_token)
    headers["location"] = f"{address}/{number}/{token}"
    return HttpResponse(status=201, body=body.content, headers=headers)


def messages_address(root: str, entity: str) -> str:
    """The URL of an entity's messages; `root` is scheme and host."""
    return f"{root}/{quote(entity, safe='/$')}/messages"


def renewed_response(locked_until: int) -> HttpResponse:
    """The lock of a message was renewed."""
    shown = json.dumps({"LockedUntilUtc": http_time(locked_until)})
    return HttpResponse(status=200, headers={_BROKER_PROPERTIES: shown})


def _broker_properties(
    message: ReceivedMessage,
    header: list[object],
    annotations: Mapping[object, object],
    properties: list[object],
) -> dict[str, object]:
    count = _field(header, _DELIVERY_COUNT)
    first = annotations.get("x-opt-enqueue-sequence-number")
    state = annotations.get("x-opt-message-state")
    shown: dict[str, object] = {
        # This delivery counts, too.
        "DeliveryCount": 1 + (int(count) if isinstance(count, int) else 0),
        "EnqueuedSequenceNumber": int(first) if isinstance(first, int) else 0,
        "SequenceNumber": message.sequence_number,
        "State": _STATES.get(state if isinstance(state, int) else ACTIVE, "Active"),
        "TimeToLive": _time_to_live(header, properties),
    }
    for name, key in _ANNOTATED_TIMES.items():
        at = annotations.get(key)
        if isinstance(at, int):
            shown[name] = http_time(at)
    for name, index in _TEXTS.items():
        _add_text(shown, name, _field(properties, index))
    for name, key in _ANNOTATED_TEXTS.items():
        _add_text(shown, name, annotations.get(key))
    if message.lock_token:
        shown["LockToken"] = token_text(message.lock_token)
    else:
        shown.pop("LockedUntilUtc", None)
    return shown


def _add_text(shown: dict[str, object], name: str, value: object) -> None:
    """Ids that are not texts are shown as texts."""
    if isinstance(value, bytes):
        shown[name] = value.hex()
    elif isinstance(value, str | int | UUID):
        shown[name] = str(value)


def _time_to_live(header: list[object], properties: list[object]) -> float:
    """In seconds."""
    expires, created = _field(properties, _EXPIRES), _field(properties, _CREATED)
    if isinstance(expires, int) and isinstance(created, int) and expires > created:
        return (expires - created) / 1000
    ttl = _field(header, _TTL)
    return ttl / 1000 if isinstance(ttl, int) else _UNLIMITED_SECONDS


# --- sections -------------------------------------------------------------------


def _list(
    encoded: bytes, sections: dict[int, tuple[int, int]], code: int
) -> list[object]:
    value = _section(encoded, sections, code)
    return value if isinstance(value, list) else []


def _map(
    encoded: bytes, sections: dict[int, tuple[int, int]], code: int
) -> dict[object, object]:
    value = _section(encoded, sections, code)
    return value if isinstance(value, dict) else {}


def _section(encoded: bytes, sections: dict[int, tuple[int, int]], code: int) -> object:
    """None also for one that cannot be read: nobody has looked at all of its sender's
    bytes before, and the rest of the message is well."""
    place = sections.get(code)
    try:
        return None if place is None else decode(encoded, place[0])[0]
    except (DecodeError, RecursionError):
        return None


def _field(fields: list[object], index: int) -> object:
    return fields[index] if index < len(fields) else None
