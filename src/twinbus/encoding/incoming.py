"""From a sender's bytes to a message the broker can take.

Located, not decoded: header, annotations, message id and session id are read, the
rest is only measured. What a delivery will have to take apart (properties, application
properties) is measured field by field, so that no message gets past the door that
could not be handed out again. On the hot path this is all that happens to a message
besides being stored.
"""

from typing import Final

from twinbus.amqp.codec import decode, skip
from twinbus.amqp.decoder import list_header
from twinbus.amqp.errors import DecodeError
from twinbus.broker.message import Message
from twinbus.encoding.layout import (
    AMQP_SEQUENCE,
    ANNOTATED,
    APPLICATION_PROPERTIES,
    BARE_SHIFT,
    DATA,
    DEFAULT_PRIORITY,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    SAYS_DURABLE,
    SAYS_PRIORITY,
    pack_layout,
)
from twinbus.encoding.maps import check_map
from twinbus.encoding.sections import canonical, check_binary, section_code
from twinbus.errors import ArgumentError, MessageSizeExceeded
from twinbus.limits import (
    DURATION_MS_UNLIMITED,
    MESSAGE_ID_CHARACTERS,
    PROPERTIES_BYTES,
)

_SCHEDULED: Final = "x-opt-scheduled-enqueue-time"
_PARTITION_KEY: Final = "x-opt-partition-key"
_NO_HEADER: Final = pack_layout(False, False, DEFAULT_PRIORITY, 0)

_HEADERS: Final[dict[bytes, tuple[int, int]]] = {}
"""Layout bits and time to live by encoded header: senders repeat themselves."""

_HEADERS_LIMIT: Final = 512
_HEADER_BYTES: Final = 32
"""Longer ones are legal, and not worth remembering."""

_GROUP_ID: Final = 10
"""Place of the session id among the properties."""

_NULL: Final = 0x40

_LATEST: Final = (1 << 63) - 1
"""Instants are kept as signed 64-bit numbers."""


def read_message(raw: bytes) -> Message:
    """The message in these bytes. Raises ArgumentError, MessageSizeExceeded."""
    try:
        message = _located(raw)
        if message is None:
            message = _located(canonical(raw))
    except DecodeError as error:
        raise ArgumentError(f"The message is malformed: {error}.") from None
    if message is None:
        raise ArgumentError(
            "The message has its sections in a wrong order, or one of them twice."
        )
    return message


def _located(raw: bytes) -> Message | None:
    """None if a section is not where, or not as, it is expected to be."""
    total = len(raw)
    at = 0
    last = 0
    bits = _NO_HEADER
    ttl_ms = 0
    scheduled_at = 0
    session_id: str | None = None
    bare_at = -1
    body_at = total
    while at < total:
        code = section_code(raw, at)
        if not _may_follow(code, last):
            return None
        last = code
        value_at = at + 3
        end = skip(raw, value_at)
        if code == HEADER:
            bits, ttl_ms = _header(raw[value_at:end])
        elif code == MESSAGE_ANNOTATIONS:
            bits |= ANNOTATED
            scheduled_at = _scheduled_at(raw, value_at)
        elif code == DELIVERY_ANNOTATIONS:
            bits |= ANNOTATED
            check_map(raw, value_at, end)
        elif bare_at < 0:
            bare_at = at
        if code == PROPERTIES:
            session_id = _session_id(raw, value_at)
        elif code == APPLICATION_PROPERTIES:
            check_map(raw, value_at, end)
        elif code >= DATA and code != FOOTER and body_at == total:
            body_at = at
        if code == DATA:
            check_binary(raw, value_at)
        at = end
    if body_at > PROPERTIES_BYTES:
        raise MessageSizeExceeded(
            f"The message's properties have {body_at} bytes; at most "
            f"{PROPERTIES_BYTES} are allowed."
        )
    if bare_at < 0:
        bare_at = total
    message = Message(raw, bits | bare_at << BARE_SHIFT, ttl_ms, scheduled_at)
    message.session_id = session_id
    return message


def _may_follow(code: int, last: int) -> bool:
    """Sections rise; a body has one kind of section, and of two kinds several."""
    if code == last:
        return code == DATA or code == AMQP_SEQUENCE
    return code > last and not DATA <= last < code < FOOTER


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
    if not isinstance(ttl, int) or not 0 < ttl < DURATION_MS_UNLIMITED:
        ttl = 0
    bits = pack_layout(False, durable is True, priority & 0xFF, 0)
    if fields[0] is not None:
        bits |= SAYS_DURABLE
    if fields[1] is not None:
        bits |= SAYS_PRIORITY
    found = bits, int(ttl)
    if len(encoded) <= _HEADER_BYTES:
        if len(_HEADERS) >= _HEADERS_LIMIT:
            _HEADERS.clear()
        _HEADERS[encoded] = found
    return found


def _scheduled_at(raw: bytes, at: int) -> int:
    """The scheduled enqueue time among the message annotations, or 0; the partition
    key, which is there too, is no longer than the service allows."""
    annotations, _ = decode(raw, at)
    if not isinstance(annotations, dict):
        raise DecodeError("message annotations are not a map")
    _check_text(annotations.get(_PARTITION_KEY), "partition key")
    due = annotations.get(_SCHEDULED)
    if not isinstance(due, int) or due <= 0:
        return 0
    if due > _LATEST:
        raise DecodeError("the scheduled enqueue time is no timestamp")
    return int(due)


def _session_id(raw: bytes, at: int) -> str | None:
    """The session id (group-id) among the properties, which are a list; neither it
    nor the message id is longer than the service allows."""
    count, first, end = list_header(raw, at)
    at = first
    session_id: str | None = None
    for i in range(count):
        if i == _GROUP_ID and raw[at] != _NULL:
            _check_length(raw, at, "session id")
            text, _ = decode(raw, at)
            session_id = text if isinstance(text, str) else None
        at = skip(raw, at)
    if at != end:
        raise DecodeError("the properties' size does not match their fields")
    if count > 0:
        _check_length(raw, first, "message id")
    return session_id


def _check_length(raw: bytes, at: int, noun: str) -> None:
    # Only the long string form (0xb1), or a short one past the limit, can be it.
    code = raw[at]
    if code == 0xB1 or (code == 0xA1 and raw[at + 1] > MESSAGE_ID_CHARACTERS):
        text, _ = decode(raw, at)
        _check_text(text, noun)


def _check_text(text: object, noun: str) -> None:
    if isinstance(text, str) and len(text) > MESSAGE_ID_CHARACTERS:
        raise ArgumentError(
            f"The {noun} has {len(text)} characters; at most "
            f"{MESSAGE_ID_CHARACTERS} are allowed."
        )
