"""The message id that the bus gives a message whose sender gave it none.

As the service does, once, on arrival: from then on it is part of the bytes, so that it
is the same in every delivery, in the dead letters and behind a forward. Clients rely on
it: the SDK for JavaScript cannot settle a message without one.
"""

from typing import Final

from twinbus.amqp.decoder import list_header
from twinbus.broker.message import Message
from twinbus.encoding.layout import PROPERTIES, bare_offset
from twinbus.encoding.sections import section_code

_PROPERTIES: Final = b"\x00\x53\x73"


def name_message(message: Message, message_id: bytes) -> None:
    """Give the message this id, a text of at most 255 bytes."""
    field = bytes((0xA1, len(message_id))) + message_id
    raw = message.raw
    at = end = bare_offset(message.layout)
    following, count = b"", 1
    if section_code(raw, at) == PROPERTIES:
        count, first, end = list_header(raw, at + 3)
        if count == 0:
            count = 1
        else:
            # The first field is the id, and null.
            following = raw[first + 1 : end]
    fields = field + following
    message.raw = b"".join(
        (raw[:at], _PROPERTIES, _list_head(len(fields), count), fields, raw[end:])
    )
    message.lacks_id = False


def _list_head(size: int, count: int) -> bytes:
    if size < 255:
        return bytes((0xC0, size + 1, count))
    return b"\xd0" + (size + 4).to_bytes(4, "big") + count.to_bytes(4, "big")
