"""What identifies a message: the ids that duplicates are found by, and its session.

They are read from the sender's bytes only for entities that need them; most do not.
"""

from typing import Final

from twinbus.amqp.codec import decode, encode, skip
from twinbus.amqp.decoder import list_header
from twinbus.broker.changes import LedgerRange
from twinbus.broker.message import Message
from twinbus.encoding.layout import (
    ANNOTATED,
    DELIVERY_ANNOTATIONS,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    RESTORED,
    SENT_ONCE,
    bare_offset,
)
from twinbus.encoding.own_annotations import restored_from_of, send_id_of
from twinbus.encoding.sections import section_code
from twinbus.errors import NotAllowed

_PARTITION_KEY: Final = "x-opt-partition-key"
_NULL: Final = 0x40

MESSAGE_ID_KIND: Final = b"m"
SEND_ID_KIND: Final = b"s"
"""First bytes of message ids and send ids in the stored ids."""


def duplicate_key(message: Message) -> bytes | None:
    """The message id in the form that is stored; None if there is none.

    It is encoded again, because equal ids may arrive in different encodings.
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


def locate_id(message: Message) -> None:
    """Note where the message id is in the bytes."""
    raw = message.raw
    at = bare_offset(message.layout)
    if at >= len(raw) or section_code(raw, at) != PROPERTIES:
        return
    count, first, _ = list_header(raw, at + 3)
    if count != 0 and raw[first] != _NULL:
        message.id_at = first
        message.id_end = skip(raw, first)


def send_key(message: Message) -> bytes | None:
    """The send id in the form that is stored; None if there is none."""
    if message.layout & SENT_ONCE == 0:
        return None
    return SEND_ID_KIND + send_id_of(_annotations(message))


def restored_from(message: Message) -> LedgerRange | None:
    """The message that this one was restored from; None if it does not name one. Raises
    ArgumentError if the annotation is invalid."""
    if message.layout & RESTORED == 0:
        return None
    return restored_from_of(_annotations(message))


def _annotations(message: Message) -> dict[object, object]:
    """The message annotations. They come before the bare message, which is not read."""
    raw, at = message.raw, 0
    code = section_code(raw, at)
    while code == HEADER or code == DELIVERY_ANNOTATIONS:
        at = skip(raw, at + 3)
        code = section_code(raw, at)
    if code != MESSAGE_ANNOTATIONS:
        return {}
    annotations, _ = decode(raw, at + 3)
    assert isinstance(annotations, dict)
    return annotations


def partition_key(message: Message) -> str | None:
    """The partition key that the sender set; None if there is none."""
    if message.layout & ANNOTATED == 0:
        return None
    key = _annotations(message).get(_PARTITION_KEY)
    return str(key) if isinstance(key, str) else None


def check_keys(message: Message) -> None:
    """Raises NotAllowed if the message has a session id and a different partition key:
    a session is in one fragment."""
    if message.session_id is None:
        return
    key = partition_key(message)
    if key is not None and key != message.session_id:
        raise NotAllowed(
            f"The message has the partition key '{key}' and the session id "
            f"'{message.session_id}'. Where both are set they must be the same."
        )
