"""Encodes the broker's messages for receivers.

Header and message annotations are written by the bus; the bare message is copied as it
was sent, with the expiry time set if there is one. That is the usual case. Messages
with the sender's own annotations, a dead-letter reason or properties changed by a
settlement take a slower path that merges them.

Types matter, because SDKs do not check them: `x-opt-sequence-number` is a long, times
are timestamps, and the header is always present.
"""

from typing import Final

from twinbus.amqp.codec import encode
from twinbus.amqp.decoder import list_header, skip
from twinbus.amqp.types import Symbol, Timestamp, UInt
from twinbus.broker.message import ACTIVE, Annex, Message
from twinbus.broker.row_id import sequence_of
from twinbus.encoding.layout import (
    ANNOTATED,
    APPLICATION_PROPERTIES,
    BARE_SHIFT,
    DEFAULT_PRIORITY,
    DELIVERY_ANNOTATIONS,
    HEADER_BITS,
    IDENTIFIED,
    IN_TRANSFER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    SAYS_DURABLE,
    SAYS_PRIORITY,
    is_durable,
    priority_of,
)
from twinbus.encoding.maps import changed_map, encoded_strings
from twinbus.encoding.own_annotations import RESTORED_FROM, SEND_ID
from twinbus.encoding.sections import find_sections

_SEQUENCE: Final = b"\xa3\x15x-opt-sequence-number\x81"
_ENQUEUED: Final = b"\xa3\x13x-opt-enqueued-time\x83"
_FIRST_SEQUENCE: Final = b"\xa3\x1dx-opt-enqueue-sequence-number\x81"
_STATE_ACTIVE: Final = b"\xa3\x13x-opt-message-state\x54\x00"
_LOCKED: Final = b"\xa3\x12x-opt-locked-until\x83"

# Delivery annotations: the lock token as a uuid, or none.
_LOCK_TOKEN: Final = b"\x00\x53\x71\xc1\x24\x02\xa3\x10x-opt-lock-token\x98"
_TOKEN_KEY: Final = _LOCK_TOKEN[6:-1]
_NO_LOCK_TOKEN: Final = b"\x00\x53\x71\xc1\x01\x00"

_OWN_ANNOTATIONS: Final = frozenset(
    (
        b"x-opt-sequence-number",
        b"x-opt-enqueued-time",
        b"x-opt-enqueue-sequence-number",
        b"x-opt-message-state",
        b"x-opt-locked-until",
        b"x-opt-deadletter-source",
    )
)

OWN_AND_IDS: Final = _OWN_ANNOTATIONS | {SEND_ID.encode(), RESTORED_FROM.encode()}
"""Annotations that only the bus sets, and the twinbus ids of a message."""

_PROPERTIES_SECTION: Final = b"\x00\x53\x73"

_ABSOLUTE_EXPIRY: Final = 8
"""Index of absolute-expiry-time among the properties; creation-time is the next."""

_LONGEST_HEADER_TTL_MS: Final = (1 << 32) - 1
"""The largest value of the header: 49 days. It is null for a longer time to live."""

_HEADERS: Final[dict[int, bytes]] = {}
"""Encoded headers by content; most messages share a few."""

_HEADERS_LIMIT: Final = 1024


def _delivery_annotations(token: bytes) -> bytes:
    """With the uuid whose mixed-endian bytes are the token."""
    if not token:
        return _NO_LOCK_TOKEN
    return _LOCK_TOKEN + _uuid_of(token)


def _uuid_of(token: bytes) -> bytes:
    return b"".join((token[3::-1], token[5:3:-1], token[7:5:-1], token[8:]))


def _woven_delivery_annotations(
    raw: bytes, sections: dict[int, tuple[int, int]], token: bytes
) -> bytes:
    """The sender's delivery annotations, as in the service, with the lock token."""
    given = _section(raw, sections, DELIVERY_ANNOTATIONS)
    if not given:
        return _delivery_annotations(token)
    own = {_TOKEN_KEY: b"\x98" + _uuid_of(token)} if token else {}
    return b"\x00\x53\x71" + changed_map(given, (b"x-opt-lock-token",), own)


def encoded_time(name: bytes, at: int) -> bytes:
    return name + at.to_bytes(8, "big", signed=True)


def _annotations_head(parts: tuple[bytes, ...]) -> bytes:
    """The head of the section for these entries. Their values of 8 bytes are not part
    of them, except for the state's value."""
    size = 1
    for part in parts:
        size += len(part) if part is _STATE_ACTIVE else len(part) + 8
    return bytes((0, 0x53, 0x72, 0xC1, size, 2 * len(parts)))


class DeliveryEncoder:
    """Encodes the deliveries of one batch, which share their times."""

    def __init__(self, locked_until: int, tells_state: bool = False) -> None:
        self._locked_until: int = locked_until
        # Whether the state of active messages is written; receivers do not need it.
        self._tells_state: bool = tells_state
        self._state: bytes = _STATE_ACTIVE if tells_state else b""
        parts: tuple[bytes, ...] = (_SEQUENCE, _ENQUEUED)
        if locked_until != 0:
            parts = (*parts, _LOCKED)
        if tells_state:
            parts = (*parts, _STATE_ACTIVE)
        # For messages of this entity, and for those that came from another one.
        self._own_prefix: bytes = _annotations_head(parts)
        self._prefix: bytes = _annotations_head((*parts, _FIRST_SEQUENCE))
        self._locked: bytes = (
            b"" if locked_until == 0 else encoded_time(_LOCKED, locked_until)
        )
        # The first half of a token rarely changes; its encoding is cached.
        self._token_head: bytes = b""
        self._annotations: bytes = b""
        self._enqueued_at: int = -1
        self._enqueued: bytes = b""

    def encode(
        self, message: Message, sequence_number: int, token: bytes = b""
    ) -> bytes:
        """The message for a receiver; `token` is that of its lock, if any."""
        layout = message.layout
        if (
            layout & ANNOTATED != 0
            or message.annex is not None
            or message.state != ACTIVE
        ):
            return _woven(
                message, sequence_number, self._locked_until, token, self._tells_state
            )
        if message.enqueued_at != self._enqueued_at:
            self._enqueued_at = message.enqueued_at
            self._enqueued = encoded_time(_ENQUEUED, message.enqueued_at)
        bare_at = layout >> BARE_SHIFT
        if message.expires_at == 0:
            bare = message.raw[bare_at:]
        else:
            bare = _with_expiry(
                message.raw, bare_at, message.expires_at, message.ttl_ms
            )
        annotations, token_tail = _NO_LOCK_TOKEN, b""
        if token:
            head, token_tail = token[:8], token[8:]
            if head != self._token_head:
                self._token_head = head
                self._annotations = _LOCK_TOKEN + _uuid_of(head)
            annotations = self._annotations
        prefix, first_sequence = self._own_prefix, b""
        if message.body_id != 0:
            number = sequence_of(message.body_id)
            prefix = self._prefix
            first_sequence = _FIRST_SEQUENCE + number.to_bytes(8, "big")
        return b"".join(
            (
                _cached_header(message),
                annotations,
                token_tail,
                prefix,
                _SEQUENCE,
                sequence_number.to_bytes(8, "big"),
                first_sequence,
                self._state,
                self._enqueued,
                self._locked,
                bare,
            )
        )


def encode_delivery(
    message: Message, sequence_number: int, locked_until: int, token: bytes = b""
) -> bytes:
    """One message for the reply to a request, with its state; `locked_until` is 0
    without a lock."""
    return DeliveryEncoder(locked_until, True).encode(message, sequence_number, token)


def _cached_header(message: Message) -> bytes:
    key = (
        message.ttl_ms << 44
        | message.delivery_count << 12
        | message.layout & HEADER_BITS
    )
    header = _HEADERS.get(key)
    if header is None:
        header = _header(message)
        if len(_HEADERS) >= _HEADERS_LIMIT:
            _HEADERS.clear()
        _HEADERS[key] = header
    return header


def _encoded_durable(layout: int) -> bytes:
    if is_durable(layout):
        return b"\x41"
    return b"\x42" if layout & SAYS_DURABLE else b"\x40"


def _encoded_priority(layout: int) -> bytes:
    priority = priority_of(layout)
    # Older stored messages do not have this bit.
    if layout & SAYS_PRIORITY or priority != DEFAULT_PRIORITY:
        return bytes((0x50, priority))
    return b"\x40"


def _header(message: Message) -> bytes:
    ttl_ms = message.ttl_ms
    is_short = 0 < ttl_ms <= _LONGEST_HEADER_TTL_MS
    ttl = encode(UInt(ttl_ms)) if is_short else b"\x40"
    fields = b"".join(
        (
            _encoded_durable(message.layout),
            _encoded_priority(message.layout),
            ttl,
            b"\x40",
            encode(UInt(message.delivery_count)),
        )
    )
    return b"\x00\x53\x70\xc0" + bytes((len(fields) + 1, 5)) + fields


def _left_out(layout: int) -> frozenset[bytes]:
    """Annotations of the sender that receivers do not get.

    The twinbus ids are for the syphon only. If an application sent a received message
    again with all its annotations, it would be dropped as a duplicate.
    """
    if layout & IDENTIFIED != 0 and layout & IN_TRANSFER == 0:
        return OWN_AND_IDS
    return _OWN_ANNOTATIONS


def _woven(
    message: Message,
    sequence_number: int,
    locked_until: int,
    token: bytes,
    tells_state: bool,
) -> bytes:
    """The slow path: merge what sender, settlements and bus have set."""
    raw = message.raw
    sections = find_sections(raw)
    annotations = _section(raw, sections, MESSAGE_ANNOTATIONS)
    own = _own_annotations(message, sequence_number, locked_until, tells_state)
    parts = [
        _header(message),
        _woven_delivery_annotations(raw, sections, token),
        b"\x00\x53\x72",
        changed_map(annotations, _left_out(message.layout), own),
    ]
    bare_at = message.layout >> BARE_SHIFT
    body_at = _body_offset(bare_at, sections)
    properties = raw[bare_at : sections.get(PROPERTIES, (0, bare_at))[1]]
    if message.expires_at != 0:
        properties = _with_expiry(properties, 0, message.expires_at, message.ttl_ms)
    parts.append(properties)
    parts += _application_properties(
        message.annex, _section(raw, sections, APPLICATION_PROPERTIES)
    )
    parts.append(raw[body_at:])
    return b"".join(parts)


def _section(raw: bytes, sections: dict[int, tuple[int, int]], code: int) -> bytes:
    start, end = sections.get(code, (0, 0))
    return raw[start:end]


def _own_annotations(
    message: Message, sequence_number: int, locked_until: int, tells_state: bool
) -> dict[bytes, bytes]:
    annex = message.annex
    first_sequence = sequence_of(message.body_id)
    if annex is not None and annex.enqueued_sequence_number:
        first_sequence = annex.enqueued_sequence_number
    own = {
        _SEQUENCE[:-1]: b"\x81" + sequence_number.to_bytes(8, "big"),
        _ENQUEUED[:-1]: encode(Timestamp(message.enqueued_at)),
    }
    if first_sequence != 0:
        own[_FIRST_SEQUENCE[:-1]] = b"\x81" + first_sequence.to_bytes(8, "big")
    if tells_state or message.state != ACTIVE:
        own[_STATE_ACTIVE[:-2]] = bytes((0x54, message.state))
    if locked_until:
        own[_LOCKED[:-1]] = encode(Timestamp(locked_until))
    if annex is not None and annex.dead_letter_source is not None:
        key = encode(Symbol("x-opt-deadletter-source"))
        own[key] = encode(annex.dead_letter_source)
    return own


def _with_expiry(raw: bytes, at: int, expires_at: int, ttl_ms: int) -> bytes:
    """The bare message at `at`, with its absolute-expiry-time set.

    Clients compute the time to live from creation and expiry time. So a creation time
    is replaced by the time from which the bus counts; for a scheduled message that is
    later than the sender's. A time to live that does not fit into the header is
    expressed by these two times alone.
    """
    created = b""
    if ttl_ms > _LONGEST_HEADER_TTL_MS:
        created = encoded_time(b"\x83", expires_at - ttl_ms)
    if raw[at : at + 3] != _PROPERTIES_SECTION:
        return _properties_section(b"", 0, expires_at, created, b"") + raw[at:]
    count, start, end = list_header(raw, at + 3)
    if count <= _ABSOLUTE_EXPIRY:
        fields = raw[start:end]
        return _properties_section(fields, count, expires_at, created, b"") + raw[end:]
    expiry_at = start
    for _ in range(_ABSOLUTE_EXPIRY):
        expiry_at = skip(raw, expiry_at)
    before = raw[start:expiry_at]
    after_at = skip(raw, expiry_at)
    following = count - _ABSOLUTE_EXPIRY - 1
    if following > 0:
        if raw[after_at] != 0x40:
            created = encoded_time(b"\x83", expires_at - ttl_ms)
        created = created or b"\x40"
        after_at = skip(raw, after_at)
        following -= 1
    after = raw[after_at:end]
    return (
        _properties_section(
            before, _ABSOLUTE_EXPIRY, expires_at, created, after, following
        )
        + raw[end:]
    )


def _properties_section(
    before: bytes,
    count: int,
    expires_at: int,
    created: bytes,
    after: bytes,
    after_count: int = 0,
) -> bytes:
    """A properties section: `count` fields, nulls, the expiry, the creation time if
    given, and the fields after it."""
    nulls = b"\x40" * (_ABSOLUTE_EXPIRY - count)
    body = b"".join((before, nulls, encoded_time(b"\x83", expires_at), created, after))
    size = (len(body) + 4).to_bytes(4, "big")
    total = _ABSOLUTE_EXPIRY + 1 + (1 if created else 0) + after_count
    return b"".join(
        (_PROPERTIES_SECTION, b"\xd0", size, total.to_bytes(4, "big"), body)
    )


def _application_properties(annex: Annex | None, encoded: bytes) -> list[bytes]:
    """The application properties, with the changes of settlements."""
    changes: dict[bytes, bytes] = {}
    names: list[bytes] = []
    if annex is not None:
        for name, value in annex.modified.items():
            changes[encode(name)] = value
            names.append(name.encode())
        texts = {
            "DeadLetterReason": annex.dead_letter_reason,
            "DeadLetterErrorDescription": annex.dead_letter_description,
        }
        set_texts = {name: text for name, text in texts.items() if text is not None}
        changes.update(encoded_strings(set_texts))
        names += [name.encode() for name in set_texts]
    if changes:
        return [b"\x00\x53\x74", changed_map(encoded, names, changes)]
    return [b"\x00\x53\x74", encoded] if encoded else []


def _body_offset(bare_at: int, sections: dict[int, tuple[int, int]]) -> int:
    """Where the sections after the application properties begin."""
    start = bare_at
    for code in (PROPERTIES, APPLICATION_PROPERTIES):
        if code in sections:
            start = sections[code][1]
    return start
