"""Makes a received message one that can be sent again.

Everything that a bus sets is removed: delivery count, lock token, sequence number,
times, state, dead-letter source. The next bus sets it again. Ids that would make the
message a duplicate of itself are removed, too. All other bytes are kept, and so the
exact types.
"""

from itertools import pairwise
from typing import Final

from twinbus.amqp.codec import decode, encode
from twinbus.amqp.decoder import field_offsets
from twinbus.amqp.encoder import NULL, encode_list
from twinbus.amqp.errors import DecodeError
from twinbus.amqp.types import Symbol
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
from twinbus.encoding.own_annotations import SEND_ID
from twinbus.encoding.sections import find_sections
from twinbus.errors import ArgumentError

_ANY_SIZE: Final = 1 << 62
"""The entity that it is sent to checks the size."""

_ABSOLUTE_EXPIRY: Final = 8
"""Index among the properties. Removed, because the time to live starts again."""

_OF_THE_SENDER: Final = 3
"""Durable, priority and time to live; the bus sets the other fields of a header."""

_SEND_ID: Final = encode(Symbol(SEND_ID))
_LOCK_TOKEN: Final = (b"x-opt-lock-token",)
_EMPTY_MAP: Final = b"\xc1\x01\x00"

_HEADERS: Final[dict[bytes, bytes]] = {}
"""Header sections by content; most messages share a few."""

_HEADERS_LIMIT: Final = 1024


def resendable(received: bytes, send_id: bytes | None = None) -> bytes:
    """The message to send, with this send id. Raises ArgumentError."""
    message = read_message(received, 0, _ANY_SIZE)
    raw = message.raw
    sections = find_sections(raw)
    if not sections:
        raise ArgumentError("The message is empty: it has no sections.")
    own = {} if send_id is None else {_SEND_ID: encode(send_id)}
    bare_at = bare_offset(message.layout)
    bare = raw[bare_at:]
    if PROPERTIES in sections:
        start, end = sections[PROPERTIES]
        bare = _without_expiry(raw[start:end]) + raw[end:]
    return b"".join(
        (
            _header(_section(raw, sections, HEADER)),
            _map(raw, sections, DELIVERY_ANNOTATIONS, _LOCK_TOKEN, {}),
            _map(raw, sections, MESSAGE_ANNOTATIONS, OWN_AND_IDS, own),
            bare,
        )
    )


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
    if _tells_long_life(fields):
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
