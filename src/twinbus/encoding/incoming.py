"""From a sender's bytes to a message the broker can take.

Located, not decoded: header, annotations and message id are read, the rest is
only measured, so that no malformed section gets past the door. On the hot path
this is all that happens to a message besides being stored.
"""

from typing import Final

from twinbus.amqp.codec import decode, skip
from twinbus.amqp.errors import DecodeError
from twinbus.broker.message import Message
from twinbus.encoding.layout import (
    ANNOTATED,
    APPLICATION_PROPERTIES,
    BARE_SHIFT,
    DEFAULT_PRIORITY,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    pack_layout,
)
from twinbus.encoding.sections import canonical, section_code
from twinbus.errors import ArgumentError, MessageSizeExceeded
from twinbus.limits import (
    DURATION_MS_UNLIMITED,
    MESSAGE_ID_CHARACTERS,
    PROPERTIES_BYTES,
)

_SCHEDULED: Final = "x-opt-scheduled-enqueue-time"
_NO_HEADER: Final = pack_layout(False, False, DEFAULT_PRIORITY, 0)

_HEADERS: Final[dict[bytes, tuple[int, int]]] = {}
"""Layout bits and time to live by encoded header: senders repeat themselves."""

_HEADERS_LIMIT: Final = 512


def read_message(raw: bytes) -> Message:
    """The message in these bytes. Raises ArgumentError, MessageSizeExceeded."""
    try:
        message = _located(raw)
        if message is None:
            message = _located(canonical(raw))
    except DecodeError as error:
        raise ArgumentError(f"The message is malformed: {error}.") from None
    if message is None:
        raise ArgumentError("The message has its sections in a wrong order.")
    return message


def _located(raw: bytes) -> Message | None:
    """None if a section is not where, or not as, it is expected to be."""
    total = len(raw)
    at = 0
    last = 0
    bits = _NO_HEADER
    ttl_ms = 0
    scheduled_at = 0
    bare_at = -1
    body_at = total
    while at < total:
        code = section_code(raw, at)
        if code < last or code == 0 or (code == last and code < 0x75):
            return None
        last = code
        value_at = at + 3
        end = skip(raw, value_at)
        if code == HEADER:
            bits, ttl_ms = _header(raw[value_at:end])
        elif code == MESSAGE_ANNOTATIONS:
            bits |= ANNOTATED
            scheduled_at = _scheduled_at(raw, value_at)
        elif code != DELIVERY_ANNOTATIONS and bare_at < 0:
            bare_at = at
        if code == PROPERTIES:
            _check_message_id(raw, value_at)
        elif code > APPLICATION_PROPERTIES and code != FOOTER and body_at == total:
            body_at = at
        at = end
    if body_at > PROPERTIES_BYTES:
        raise MessageSizeExceeded(
            f"The message's properties have {body_at} bytes; at most "
            f"{PROPERTIES_BYTES} are allowed."
        )
    if bare_at < 0:
        bare_at = total
    return Message(raw, bits | bare_at << BARE_SHIFT, ttl_ms, scheduled_at)


def _header(encoded: bytes) -> tuple[int, int]:
    """Layout bits and time to live of an encoded header."""
    known = _HEADERS.get(encoded)
    if known is not None:
        return known
    fields, _ = decode(encoded, 0)
    if not isinstance(fields, list):
        raise DecodeError("the header is not a list")
    fields += [None] * (3 - len(fields))
    durable, priority, ttl = fields[0], fields[1], fields[2]
    if not isinstance(priority, int):
        priority = DEFAULT_PRIORITY
    if not isinstance(ttl, int) or ttl >= DURATION_MS_UNLIMITED:
        ttl = 0
    found = pack_layout(False, durable is True, priority & 0xFF, 0), int(ttl)
    if len(_HEADERS) >= _HEADERS_LIMIT:
        _HEADERS.clear()
    _HEADERS[encoded] = found
    return found


def _scheduled_at(raw: bytes, at: int) -> int:
    """The scheduled enqueue time among the message annotations, or 0."""
    annotations, _ = decode(raw, at)
    if not isinstance(annotations, dict):
        raise DecodeError("message annotations are not a map")
    due = annotations.get(_SCHEDULED)
    return int(due) if isinstance(due, int) and due > 0 else 0


def _check_message_id(raw: bytes, at: int) -> None:
    """The first of the properties must not be longer than the service allows."""
    code = raw[at]
    field_at = at + 3 if code == 0xC0 else at + 9
    if code == 0x45 or field_at >= len(raw):
        return
    # Only the long string form (0xb1), or a short one past the limit, can be it.
    code = raw[field_at]
    if code == 0xB1 or (code == 0xA1 and raw[field_at + 1] > MESSAGE_ID_CHARACTERS):
        text, _ = decode(raw, field_at)
        if isinstance(text, str) and len(text) > MESSAGE_ID_CHARACTERS:
            raise ArgumentError(
                f"The message id has {len(text)} characters; at most "
                f"{MESSAGE_ID_CHARACTERS} are allowed."
            )
