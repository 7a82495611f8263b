"""Adds a message id to a message that has none.

As in the service, this happens once, on arrival. The id is part of the bytes then, so
it is the same in every delivery, as a dead letter, and after forwarding. Clients rely
on it: the SDK for JavaScript cannot settle a message without an id.
"""

from typing import Final

from twinbus.amqp.decoder import list_header
from twinbus.broker.message import Message
from twinbus.encoding.layout import PROPERTIES, bare_offset
from twinbus.encoding.sections import section_code

_PROPERTIES: Final = b"\x00\x53\x73"


_ID_ALONE: Final = b"\x00\x53\x73\xc0\x23\x01\xa1\x20"
"""Precedes an id of 32 characters that is the only property: most messages without an
id have no properties at all."""


_ID_BYTES: Final = 34
"""Of an id with its type and length."""


def name_message(message: Message, message_id: bytes) -> None:
    """Add this id, an ASCII text of 32 characters, to the message."""
    raw = message.raw
    at = bare_offset(message.layout)
    message.lacks_id = False
    if section_code(raw, at) != PROPERTIES:
        message.raw = b"".join((raw[:at], _ID_ALONE, message_id, raw[at:]))
        message.id_at = at + len(_ID_ALONE) - 2
        message.id_end = message.id_at + _ID_BYTES
        return
    count, first, end = list_header(raw, at + 3)
    # The first field is the id; it is null.
    following = raw[first + 1 : end] if count > 0 else b""
    fields = b"".join((b"\xa1\x20", message_id, following))
    head = _list_head(len(fields), max(count, 1))
    message.raw = b"".join((raw[:at], _PROPERTIES, head, fields, raw[end:]))
    message.id_at = at + len(_PROPERTIES) + len(head)
    message.id_end = message.id_at + _ID_BYTES


def _list_head(size: int, count: int) -> bytes:
    if size < 255:
        return bytes((0xC0, size + 1, count))
    return b"\xd0" + (size + 4).to_bytes(4, "big") + count.to_bytes(4, "big")
