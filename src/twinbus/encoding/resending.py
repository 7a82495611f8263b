"""Makes a received message one that can be sent again.

Everything that a bus sets is removed: delivery count, lock token, sequence number,
times, state, dead-letter source. The next bus sets it again. Ids that would make the
message a duplicate of itself are removed, too. All other bytes are kept, and so the
exact types.

A sender may ask for changes: another time to live, no schedule, the origin in a lake or
another queue.
"""

from itertools import pairwise
from typing import Final, final

from twinbus.amqp.codec import decode, encode
from twinbus.amqp.decoder import field_offsets
from twinbus.amqp.encoder import NULL, encode_list
from twinbus.amqp.errors import DecodeError
from twinbus.amqp.types import Symbol, Timestamp, UInt
from twinbus.encoding.incoming import read_message
from twinbus.encoding.layout import (
    DELIVERY_ANNOTATIONS,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    bare_offset,
)
from twinbus.encoding.maps import changed_map
from twinbus.encoding.outgoing import OWN_AND_IDS
from twinbus.encoding.own_annotations import RESTORED_FROM, SEND_ID
from twinbus.encoding.sections import find_sections
from twinbus.errors import ArgumentError

_ANY_SIZE: Final = 1 << 62
"""The entity that it is sent to checks the size."""

_ABSOLUTE_EXPIRY: Final = 8
"""Index among the properties. Removed, because the time to live starts again. The next
one is the creation time."""

_TIME_TO_LIVE: Final = 2
"""Index in the header."""

_LONGEST_HEADER_TTL_MS: Final = (1 << 32) - 1
"""A longer time to live is the time between creation and expiry."""

_OF_THE_SENDER: Final = 3
"""Durable, priority and time to live; the bus sets the other fields of a header."""

_SEND_ID: Final = encode(Symbol(SEND_ID))
_RESTORED_FROM: Final = encode(Symbol(RESTORED_FROM))
_SCHEDULED: Final = frozenset((b"x-opt-scheduled-enqueue-time",))
_LOCK_TOKEN: Final = (b"x-opt-lock-token",)
_EMPTY_MAP: Final = b"\xc1\x01\x00"
_NO_FIELDS: Final = b"\x45"

_HEADERS: Final[dict[bytes, bytes]] = {}
"""Header sections by content; most messages share a few."""

_HEADERS_LIMIT: Final = 1024


@final
class ResendChanges:
    """What is to be different from the message that was received."""

    __slots__ = ("drops_life", "drops_schedule", "expires_at", "now", "restored_from")

    def __init__(
        self,
        *,
        restored_from: str = "",
        drops_schedule: bool = False,
        drops_life: bool = False,
        expires_at: int = 0,
        now: int = 0,
    ) -> None:
        # SEQUENCE@GENERATION@SOURCE, or empty.
        self.restored_from = restored_from
        self.drops_schedule = drops_schedule
        # Without a time to live of its own, it gets that of the entity.
        self.drops_life = drops_life
        # It expires then, and not after its whole time to live; 0: as it was.
        self.expires_at = expires_at
        # The present, for a message that expires at a fixed time.
        self.now = now


_NO_CHANGES: Final = ResendChanges()


def resendable(
    received: bytes,
    send_id: bytes | None = None,
    changes: ResendChanges = _NO_CHANGES,
) -> bytes:
    """The message to send, with this send id. Raises ArgumentError."""
    message = read_message(received, 0, _ANY_SIZE)
    raw = message.raw
    sections = find_sections(raw)
    if not sections:
        raise ArgumentError("The message is empty: it has no sections.")
    own = {} if send_id is None else {_SEND_ID: encode(send_id)}
    if changes.restored_from:
        own[_RESTORED_FROM] = encode(changes.restored_from)
    drop = OWN_AND_IDS | _SCHEDULED if changes.drops_schedule else OWN_AND_IDS
    bare_at = bare_offset(message.layout)
    bare = raw[bare_at:]
    if PROPERTIES in sections:
        start, end = sections[PROPERTIES]
        bare = _expiring(raw[start:end], changes) + raw[end:]
    elif changes.expires_at - changes.now > _LONGEST_HEADER_TTL_MS:
        bare = _expiring(_NO_FIELDS, changes) + bare
    return b"".join(
        (
            _changed_header(_section(raw, sections, HEADER), changes),
            _map(raw, sections, DELIVERY_ANNOTATIONS, _LOCK_TOKEN, {}),
            _map(raw, sections, MESSAGE_ANNOTATIONS, drop, own),
            bare,
        )
    )


def _changed_header(encoded: bytes, changes: ResendChanges) -> bytes:
    """The section, or nothing if it has no field."""
    if not changes.drops_life and changes.expires_at == 0:
        return _header(encoded)
    fields: object = []
    if encoded:
        fields, _ = decode(encoded, 0)
    assert isinstance(fields, list)
    said = [encode(value) for value in fields[:_TIME_TO_LIVE]]
    left_ms = changes.expires_at - changes.now
    if changes.expires_at != 0 and left_ms <= _LONGEST_HEADER_TTL_MS:
        said += [NULL] * (_TIME_TO_LIVE - len(said))
        said.append(encode(UInt(max(1, left_ms))))
    if all(field == NULL for field in said):
        return b""
    return b"\x00\x53\x70" + encode_list(said)


def _expiring(properties: bytes, changes: ResendChanges) -> bytes:
    """The section, with the expiry that the changes ask for."""
    if not changes.drops_life and changes.expires_at == 0:
        return _without_expiry(properties)
    offsets = field_offsets(properties, 0)
    fields = [properties[at:end] for at, end in pairwise(offsets)]
    if len(fields) > _ABSOLUTE_EXPIRY:
        fields[_ABSOLUTE_EXPIRY] = NULL
    if changes.expires_at - changes.now > _LONGEST_HEADER_TTL_MS:
        fields += [NULL] * (_ABSOLUTE_EXPIRY + 2 - len(fields))
        fields[_ABSOLUTE_EXPIRY] = encode(Timestamp(changes.expires_at))
        fields[_ABSOLUTE_EXPIRY + 1] = encode(Timestamp(changes.now))
    while fields and fields[-1] == NULL:
        fields.pop()
    return bytes((0, 0x53, PROPERTIES)) + encode_list(fields) if fields else b""


def _section(raw: bytes, sections: dict[int, tuple[int, int]], code: int) -> bytes:
    start, end = sections.get(code, (0, 0))
    return raw[start:end]


def _header(encoded: bytes) -> bytes:
    """The section, or nothing if the sender set no field."""
    if not encoded:
        return b""
    known = _HEADERS.get(encoded)
    if known is None:
        fields, _ = decode(encoded, 0)
        assert isinstance(fields, list)
        said = [encode(value) for value in fields[:_OF_THE_SENDER]]
        known = b""
        if any(field != NULL for field in said):
            known = b"\x00\x53\x70" + encode_list(said)
        if len(_HEADERS) >= _HEADERS_LIMIT:
            _HEADERS.clear()
        _HEADERS[encoded] = known
    return known


def _map(
    raw: bytes,
    sections: dict[int, tuple[int, int]],
    code: int,
    drop: frozenset[bytes] | tuple[bytes, ...],
    add: dict[bytes, bytes],
) -> bytes:
    """The section without these keys, or nothing if it is empty then."""
    changed = changed_map(_section(raw, sections, code), drop, add)
    return b"" if changed == _EMPTY_MAP else bytes((0, 0x53, code)) + changed


def _without_expiry(properties: bytes) -> bytes:
    """The section without the expiry time."""
    offsets = field_offsets(properties, 0)
    section = bytes((0, 0x53, PROPERTIES))
    if len(offsets) <= _ABSOLUTE_EXPIRY + 1:
        return section + properties
    fields = [properties[at:end] for at, end in pairwise(offsets)]
    if fields[_ABSOLUTE_EXPIRY] == NULL or _tells_long_life(fields):
        return section + properties
    fields[_ABSOLUTE_EXPIRY] = NULL
    # Remove nulls that the bus added before the expiry time.
    while fields and fields[-1] == NULL:
        fields.pop()
    return section + encode_list(fields) if fields else b""


def _tells_long_life(fields: list[bytes]) -> bool:
    """True if the time to live does not fit into the header: it is the time between
    creation and expiry."""
    if len(fields) <= _ABSOLUTE_EXPIRY + 1:
        return False
    try:
        expires, _ = decode(fields[_ABSOLUTE_EXPIRY], 0)
        created, _ = decode(fields[_ABSOLUTE_EXPIRY + 1], 0)
    except DecodeError as error:
        raise ArgumentError(f"A time of the message is damaged: {error}") from None
    return (
        isinstance(expires, int)
        and isinstance(created, int)
        and expires - created >= 1 << 32
    )
