"""What identifies a message: the id that duplicate detection compares, its session.

Read from the sender's bytes when an entity asks for it, which most do not.
"""

from typing import Final

from twinbus.amqp.codec import decode, encode
from twinbus.amqp.decoder import list_header
from twinbus.broker.message import Message
from twinbus.encoding.incoming import read_message
from twinbus.encoding.layout import PROPERTIES, bare_offset
from twinbus.encoding.sections import section_code

MESSAGE_ID_KIND: Final = b"m"
"""First byte of a message id in the id ledger."""


def duplicate_key(message: Message) -> bytes | None:
    """The id in the ledger of the message's id; None if it has no id.

    Encoded anew, because equal ids may arrive in different encodings.
    """
    raw = message.raw
    at = bare_offset(message.layout)
    if section_code(raw, at) != PROPERTIES:
        return None
    count, first, _ = list_header(raw, at + 3)
    if count == 0:
        return None
    message_id, _ = decode(raw, first)
    return None if message_id is None else MESSAGE_ID_KIND + encode(message_id)


def session_id_of(message: Message) -> str | None:
    """The session id that the sender set, also where nobody asked for one."""
    return read_message(message.raw).session_id
