"""Messages of a backlog queue as bytes: read on arrival, put together for the primary.

Only annotations and application properties are decoded, and only what the detour wrote
is changed. So every value of the application keeps its AMQP type. The body is never
decoded.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Final, final

from twinbus.amqp.codec import decode, encode
from twinbus.amqp.decoder import field_offsets
from twinbus.amqp.encoder import NULL, encode_list
from twinbus.amqp.errors import DecodeError
from twinbus.amqp.events import MessageReceived
from twinbus.amqp.types import Described, Int, Symbol, Timestamp, UInt
from twinbus.encoding.layout import (
    APPLICATION_PROPERTIES,
    DATA,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
)
from twinbus.encoding.maps import changed_map, map_entries
from twinbus.encoding.sections import find_sections
from twinbus.pairing.detour import (
    KEY_ADDED,
    OWN_PREFIX,
    PARTITION_KEY,
    PATH,
    RESTORED_FROM,
    SCHEDULED,
    SESSION_ID,
    TIME_TO_LIVE,
    restored_properties,
)
from twinbus.pairing.syphon.ports import BacklogMessage, Fault
from twinbus.pairing.syphon.reading import read

_SEQUENCE_NUMBER: Final = "x-opt-sequence-number"
_ENQUEUED: Final = "x-opt-enqueued-time"
_STATE: Final = "x-opt-message-state"
_DUE: Final = "x-opt-scheduled-enqueue-time"
_DEFERRED: Final = 1
_DEFERRED_BYTES: Final = _STATE.encode() + encode(Int(_DEFERRED))
"""How twinbus writes that."""


_BUS_ANNOTATIONS: Final = frozenset(
    (
        *(b"x-opt-sequence-number", b"x-opt-enqueued-time", b"x-opt-locked-until"),
        *(b"x-opt-enqueue-sequence-number", b"x-opt-message-state"),
        *(b"x-opt-deadletter-source", _DUE.encode(), RESTORED_FROM.encode()),
    )
)
"""Annotations that a bus writes: not copied, or written anew."""

_WITHOUT_KEY: Final = _BUS_ANNOTATIONS.union(
    (KEY_ADDED.encode(), PARTITION_KEY.encode())
)

_DETOUR_NAMES: Final = (PATH, SESSION_ID, TIME_TO_LIVE, SCHEDULED)
_DETOUR_KEYS: Final = frozenset(name.encode() for name in _DETOUR_NAMES)
_OWN_BYTES: Final = OWN_PREFIX.encode()

_RESTORED_KEY: Final = encode(Symbol(RESTORED_FROM))
_DUE_KEY: Final = encode(Symbol(_DUE))

_SECTION: Final = {code: bytes((0, 0x53, code)) for code in range(HEADER, 0x79)}

_CREATED, _EXPIRES, _GROUP_ID = 9, 8, 10
"""Places among the properties."""

_LONGEST_TTL_MS: Final = (1 << 32) - 1
"""The longest time to live that the header can hold: 49 days. A longer one is told by
two times in the properties, as the vendor's SDKs do."""

_HEADERS: Final[dict[tuple[bytes, int], bytes]] = {}
"""A cache of restored headers: many messages have the same."""

_HEADERS_LIMIT: Final = 1_024

_TIMESPAN: Final = "com.microsoft:timespan"


@final
class OwnMessage(BacklogMessage):
    """A message of a backlog queue, and how it was received."""

    __slots__ = (
        "delivery_id",
        "is_key_added",
        "lock_token",
        "payload",
        "restored_from",
        "sections",
    )

    # On the link that it came by; without meaning for deferred messages.
    delivery_id: int
    lock_token: object
    payload: bytes
    sections: dict[int, tuple[int, int]]
    restored_from: str
    # Its partition key is of the detour.
    is_key_added: bool


def received(delivery: MessageReceived) -> OwnMessage:
    """The message in a delivery. Raises DecodeError if it is malformed."""
    message = read_payload(delivery.payload)
    message.delivery_id = delivery.delivery_id
    return message


def is_deferred(payload: bytes) -> bool:
    """Whether the message in these bytes, which were peeked at, is deferred."""
    # Most are not, and that can be seen without decoding them.
    if _DEFERRED_BYTES not in payload:
        return False
    annotations = _map(payload, find_sections(payload), MESSAGE_ANNOTATIONS)
    return annotations.get(_STATE) == _DEFERRED


def read_payload(payload: bytes) -> OwnMessage:
    """The message in these bytes. Raises DecodeError."""
    sections = find_sections(payload)
    annotations = _map(payload, sections, MESSAGE_ANNOTATIONS)
    number, enqueued_at = annotations.get(_SEQUENCE_NUMBER), annotations.get(_ENQUEUED)
    if not isinstance(number, int) or not isinstance(enqueued_at, int):
        raise DecodeError("a message of a backlog queue has no number or no time")
    detour, fault = None, None
    try:
        properties = _detour_properties(payload, sections)
    except DecodeError as error:
        fault = Fault("InvalidProperty", f"Application properties: {error}.")
    else:
        detour, fault = read(properties)
    message = OwnMessage(
        sequence_number=number,
        enqueued_at=enqueued_at,
        size_bytes=len(payload),
        detour=detour,
        fault=fault,
        is_deferred=annotations.get(_STATE) == _DEFERRED,
    )
    message.payload = payload
    message.sections = sections
    message.delivery_id = -1
    message.lock_token = None
    message.restored_from = ""
    message.is_key_added = KEY_ADDED in annotations
    return message


def _map(
    payload: bytes, sections: Mapping[int, tuple[int, int]], code: int
) -> dict[object, object]:
    if code not in sections:
        return {}
    value, _ = decode(payload, sections[code][0])
    if not isinstance(value, dict):
        raise DecodeError("a section that must be a map is none")
    return value


def _detour_properties(
    payload: bytes, sections: Mapping[int, tuple[int, int]]
) -> dict[str, object]:
    """The properties that the detour wrote, without AMQP types that only .NET has. The
    application's own values are not decoded: some clients send bytes that are no
    text."""
    plain: dict[str, object] = {}
    if APPLICATION_PROPERTIES not in sections:
        return plain
    for at, value_at, _ in map_entries(payload, sections[APPLICATION_PROPERTIES][0]):
        name, _ = decode(payload, at)
        if not isinstance(name, str) or name not in _DETOUR_NAMES:
            continue
        value, _ = decode(payload, value_at)
        if isinstance(value, Described) and value.descriptor == _TIMESPAN:
            value = value.value
        if value is not None:
            plain[name] = value
    return plain


# --- for the primary ----------------------------------------------------------------


def restored(message: OwnMessage, now: int) -> bytes:
    """The message as it was before its detour; its time to live begins now."""
    payload, sections = message.payload, message.sections
    assert message.detour is not None
    _, body_at = sections.get(APPLICATION_PROPERTIES) or sections.get(
        PROPERTIES, (0, _bare_offset(sections))
    )
    return b"".join(
        (
            _header(message),
            _SECTION[MESSAGE_ANNOTATIONS],
            _annotations(message),
            _properties(message, now),
            _application_properties(message),
            payload[body_at:],
        )
    )


def envelope(encoded: bytes) -> bytes:
    """A message as one section of a batch."""
    size = len(encoded)
    head = bytes((0xA0, size)) if size < 256 else b"\xb0" + size.to_bytes(4, "big")
    return _SECTION[DATA] + head + encoded


def _bare_offset(sections: Mapping[int, tuple[int, int]]) -> int:
    """The offset where the sections end that a bus may change."""
    ends = [end for code, (_, end) in sections.items() if code < PROPERTIES]
    return max(ends, default=0)


def _slice(message: OwnMessage, code: int) -> bytes:
    start, end = message.sections.get(code, (0, 0))
    return message.payload[start:end]


def _header(message: OwnMessage) -> bytes:
    """The header: durable and priority as they were, and the time to live."""
    key = _slice(message, HEADER), message.time_to_live_ms or 0
    known = _HEADERS.get(key)
    if known is None:
        if len(_HEADERS) >= _HEADERS_LIMIT:
            _HEADERS.clear()
        known = _HEADERS[key] = _encoded_header(*key)
    return known


def _encoded_header(given: bytes, ttl_ms: int) -> bytes:
    fields = decode(given, 0)[0] if given else []
    said = [*fields[:2], None, None][:2] if isinstance(fields, list) else [None, None]
    ttl = UInt(min(ttl_ms, _LONGEST_TTL_MS)) if ttl_ms else None
    parts = [encode(value) for value in (*said, ttl)]
    return _SECTION[HEADER] + encode_list(parts)


def _annotations(message: OwnMessage) -> bytes:
    assert message.detour is not None
    own = {_RESTORED_KEY: encode(message.restored_from)}
    if message.detour.scheduled_at is not None:
        own[_DUE_KEY] = encode(Timestamp(message.detour.scheduled_at))
    drop = _WITHOUT_KEY if message.is_key_added else _BUS_ANNOTATIONS
    return changed_map(_slice(message, MESSAGE_ANNOTATIONS), drop, own)


def _properties(message: OwnMessage, now: int) -> bytes:
    """The section of properties with the session id, or nothing."""
    assert message.detour is not None
    session_id, ttl_ms = message.detour.session_id, message.time_to_live_ms or 0
    encoded = _slice(message, PROPERTIES)
    is_long = ttl_ms > _LONGEST_TTL_MS
    if session_id is None and not is_long:
        return _SECTION[PROPERTIES] + encoded if encoded else b""
    offsets = field_offsets(encoded, 0) if encoded else []
    fields = [encoded[at:end] for at, end in pairwise(offsets)]
    fields += [NULL] * (_GROUP_ID + 1 - len(fields))
    fields[_GROUP_ID] = encode(session_id)
    if is_long:
        fields[_CREATED] = encode(Timestamp(now))
        fields[_EXPIRES] = encode(Timestamp(now + ttl_ms))
    return _SECTION[PROPERTIES] + encode_list(fields)


def _application_properties(message: OwnMessage) -> bytes:
    """The section without what the detour wrote; empty if there was nothing else."""
    encoded = _slice(message, APPLICATION_PROPERTIES)
    drop, add = _DETOUR_KEYS, dict[bytes, bytes]()
    if _OWN_BYTES in encoded:
        kept = _own_entries(encoded)
        drop = drop.union(name.encode() for name in kept)
        add = {encode(_own_name(name)): value for name, value in kept.items()}
    changed = changed_map(encoded, drop, add)
    # An empty map: a message without application properties has no such section.
    if changed == b"\xc1\x01\x00":
        return b""
    return _SECTION[APPLICATION_PROPERTIES] + changed


def _own_entries(encoded: bytes) -> dict[str, bytes]:
    """The application's properties that were renamed for the detour, still encoded."""
    entries: dict[str, bytes] = {}
    for at, value_at, end in map_entries(encoded, 0):
        name, _ = decode(encoded, at)
        if isinstance(name, str) and _own_name(name) != name:
            entries[name] = encoded[value_at:end]
    return entries


def _own_name(name: str) -> str:
    if name in _DETOUR_NAMES:
        return name
    return next(iter(restored_properties({name: None})), name)
