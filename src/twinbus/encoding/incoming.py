"""Reads a sender's bytes into a message for the broker.

Header, annotations, message id and session id are decoded; of the rest only the sizes
are read. Sections that a delivery has to split (properties, application properties) are
checked field by field, so that no message is accepted that could not be delivered. On
the hot path nothing else happens to a message before it is stored.
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
    IDENTIFIED,
    MESSAGE_ANNOTATIONS,
    PING,
    PROPERTIES,
    RESTORED,
    SAYS_DURABLE,
    SAYS_PRIORITY,
    SENT_ONCE,
    pack_layout,
)
from twinbus.encoding.maps import check_map
from twinbus.encoding.own_annotations import RESTORED_FROM, SEND_ID, send_id_of
from twinbus.encoding.sections import canonical, check_binary, section_code
from twinbus.errors import ArgumentError, MessageSizeExceeded
from twinbus.limits import (
    DURATION_MS_UNLIMITED,
    MESSAGE_ID_CHARACTERS,
    PROPERTIES_BYTES,
    TRANSFER_HEADROOM_BYTES,
)

PING_CONTENT_TYPE: Final = b"application/vnd.ms-servicebus-ping"

_SCHEDULED: Final = "x-opt-scheduled-enqueue-time"
_PARTITION_KEY: Final = "x-opt-partition-key"
_NO_HEADER: Final = pack_layout(False, False, DEFAULT_PRIORITY, 0)

_HEADERS: Final[dict[bytes, tuple[int, int]]] = {}
"""Layout bits and time to live, by encoded header: most senders repeat their header."""

_HEADERS_LIMIT: Final = 512
_HEADER_BYTES: Final = 32
"""Longer headers are valid, but rare, and not cached."""

_CONTENT_TYPE: Final = 6
_EXPIRES: Final = 8
_CREATED: Final = 9
_GROUP_ID: Final = 10
"""Indexes of content type, expiry, creation time and session id in the properties."""

_NULL: Final = 0x40
_TIMESTAMP: Final = 0x83

_LONGEST_HEADER_TTL_MS: Final = (1 << 32) - 1
"""The largest value of the header: 49 days. A longer time to live is expressed by
creation and expiry time in the properties, as the service's SDKs do it."""

_LATEST: Final = (1 << 63) - 1
"""Times are kept as signed 64-bit numbers."""


def read_message(
    raw: bytes, offered: int = 0, properties_bytes: int = PROPERTIES_BYTES
) -> Message:
    """The message in these bytes. Raises ArgumentError, MessageSizeExceeded.

    `offered` has the layout bits of the extensions to look for.
    """
    try:
        message = _located(raw, offered, properties_bytes)
        if message is None:
            message = _located(canonical(raw), offered, properties_bytes)
    except DecodeError as error:
        raise ArgumentError(f"The message is malformed: {error}.") from None
    if message is None:
        raise ArgumentError(
            "The message has its sections in a wrong order, or one of them twice."
        )
    return message


def _located(raw: bytes, offered: int, properties_bytes: int) -> Message | None:
    """None if a section is not in its usual place or form."""
    total = len(raw)
    at = 0
    last = 0
    bits = _NO_HEADER
    ttl_ms = 0
    scheduled_at = 0
    session_id: str | None = None
    bare_at = -1
    body_at = total
    send_id = b""
    id_at = id_end = 0
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
            scheduled_at, said, send_id = _annotations(raw, value_at, offered)
            bits |= ANNOTATED | said
        elif code == DELIVERY_ANNOTATIONS:
            bits |= ANNOTATED
            check_map(raw, value_at, end)
        elif bare_at < 0:
            bare_at = at
        if code == PROPERTIES:
            session_id, said, id_at, id_end, life_ms = _properties(raw, value_at)
            bits |= said & offered
            if life_ms > _LONGEST_HEADER_TTL_MS:
                ttl_ms = life_ms if life_ms < DURATION_MS_UNLIMITED else 0
        elif code == APPLICATION_PROPERTIES:
            check_map(raw, value_at, end)
        elif code >= DATA and code != FOOTER and body_at == total:
            body_at = at
        if code == DATA:
            check_binary(raw, value_at)
        at = end
    if body_at > properties_bytes:
        _check_headroom(body_at, properties_bytes, bits)
    if bare_at < 0:
        bare_at = total
    message = Message(raw, bits | bare_at << BARE_SHIFT, ttl_ms, scheduled_at)
    message.session_id = session_id
    message.uid = send_id
    message.id_at = id_at
    message.id_end = id_end
    message.lacks_id = id_end == 0
    return message


def _check_headroom(size_bytes: int, limit_bytes: int, bits: int) -> None:
    """Raises MessageSizeExceeded if the properties exceed limit and headroom."""
    if bits & IDENTIFIED and size_bytes <= PROPERTIES_BYTES + TRANSFER_HEADROOM_BYTES:
        return
    raise MessageSizeExceeded(
        f"The message's properties have {size_bytes} bytes; at most {limit_bytes} are "
        "allowed."
    )


def _may_follow(code: int, last: int) -> bool:
    """Sections come in rising order. A body has one kind of section; two of the kinds
    may be repeated."""
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


def _annotations(raw: bytes, at: int, offered: int) -> tuple[int, int, bytes]:
    """The scheduled enqueue time in the message annotations, or 0, the bits of twinbus
    annotations, and the send id. Checks the length of the partition key."""
    annotations, _ = decode(raw, at)
    if not isinstance(annotations, dict):
        raise DecodeError("message annotations are not a map")
    _check_text(annotations.get(_PARTITION_KEY), "partition key")
    bits = 0
    send_id = b""
    if offered & SENT_ONCE and annotations.get(SEND_ID) is not None:
        send_id = send_id_of(annotations)
        bits = SENT_ONCE
    if offered & RESTORED and annotations.get(RESTORED_FROM) is not None:
        bits |= RESTORED
    due = annotations.get(_SCHEDULED)
    if not isinstance(due, int) or due <= 0:
        return 0, bits, send_id
    if due > _LATEST:
        raise DecodeError("the scheduled enqueue time is no timestamp")
    return int(due), bits, send_id


def _properties(raw: bytes, at: int) -> tuple[str | None, int, int, int, int]:
    """The session id (group-id) in the properties, the ping bit, where the message id
    begins and ends (0: there is none), and the time from creation to expiry. Checks the
    lengths of both ids."""
    count, first, end = list_header(raw, at)
    at = first
    session_id: str | None = None
    bits = 0
    id_end = 0
    expires = created = 0
    for i in range(count):
        # First, because an invalid list may end within this field.
        following = skip(raw, at)
        if i == 0:
            if raw[at] != _NULL:
                id_end = following
        elif i == _CONTENT_TYPE:
            if _is_ping(raw, at, following):
                bits = PING
        elif i == _EXPIRES:
            expires = _instant(raw, at)
        elif i == _CREATED:
            created = _instant(raw, at)
        elif i == _GROUP_ID and raw[at] != _NULL:
            _check_length(raw, at, "session id")
            text, _ = decode(raw, at)
            session_id = text if isinstance(text, str) else None
        at = following
    if at != end:
        raise DecodeError("the properties' size does not match their fields")
    if id_end != 0:
        _check_length(raw, first, "message id")
    life_ms = expires - created if expires > 0 and created > 0 else 0
    return session_id, bits, first, id_end, life_ms


def _instant(raw: bytes, at: int) -> int:
    """The timestamp at `at`; 0 if it is another value."""
    if raw[at] != _TIMESTAMP:
        return 0
    return int.from_bytes(raw[at + 1 : at + 9], "big", signed=True)


def _is_ping(raw: bytes, at: int, end: int) -> bool:
    """Whether the content type from `at` to `end` is that of a ping."""
    code = raw[at]
    start = end - len(PING_CONTENT_TYPE)
    if start == at + 2:
        return (code == 0xA3 or code == 0xA1) and raw.startswith(
            PING_CONTENT_TYPE, start
        )
    if start == at + 5:
        return (code == 0xB3 or code == 0xB1) and raw.startswith(
            PING_CONTENT_TYPE, start
        )
    return False


def _check_length(raw: bytes, at: int, noun: str) -> None:
    # Only a long string (0xb1), or a short one beyond the limit, can be too long.
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
