"""A message as a receiver got it, made one that can be sent.

What a bus says of a message is left out: delivery count, lock token, sequence number,
times, state, where it was a dead letter. The next bus says it anew. So are ids by
which the message would be taken for a copy of itself. All the rest keeps its bytes, and
so its exact types.
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
"""How large it may be is for the entity to say that it is sent to."""

_ABSOLUTE_EXPIRY: Final = 8
"""Index among the properties. Set by the bus; the header's time to live begins anew."""

_OF_THE_SENDER: Final = 3
"""Durable, priority and time to live; the rest of a header is the bus's."""

_SEND_ID: Final = encode(Symbol(SEND_ID))
_LOCK_TOKEN: Final = (b"x-opt-lock-token",)
_EMPTY_MAP: Final = b"\xc1\x01\x00"

_HEADERS: Final[dict[bytes, bytes]] = {}
"""Header sections by what they are made of: they repeat."""

_HEADERS_LIMIT: Final = 1024


def resendable(received: bytes, send_id: bytes | None = None) -> bytes:
    """The message to send, with this send id. Raises ArgumentError if the bytes are no
    message."""
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
    """The section, or nothing if the sender said nothing."""
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
    """The section, as it was if no expiry is in it."""
    offsets = field_offsets(properties, 0)
    section = bytes((0, 0x53, PROPERTIES))
    if len(offsets) <= _ABSOLUTE_EXPIRY + 1:
        return section + properties
    fields = [properties[at:end] for at, end in pairwise(offsets)]
    if _tells_long_life(fields):
        return section + properties
    fields[_ABSOLUTE_EXPIRY] = NULL
    # Fields that the bus filled up with on the way to the expiry go with it.
    while fields and fields[-1] == NULL:
        fields.pop()
    return section + encode_list(fields) if fields else b""


def _tells_long_life(fields: list[bytes]) -> bool:
    """The header cannot hold it, so it is what lies between creation and expiry."""
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
