"""The key of a message: what decides which fragment it belongs to.

    the session id, if it has one
    else its partition key
    else its message id, if the entity detects duplicates
    else it has none, and any fragment may have it

A duplicate is looked for in one fragment only. So where duplicates are detected, equal
messages must come to the same fragment. The same holds for the ids that twinbus adds: a
message without a key goes to the fragment of its send id, or of what it was restored
from, because the ledger that knows it is there.
"""

from typing import Final

from twinbus.broker.message import Message
from twinbus.encoding.identity import (
    duplicate_key,
    partition_key,
    restored_from,
    send_key,
)
from twinbus.encoding.layout import IDENTIFIED, IN_TRANSFER
from twinbus.errors import NotAllowed

_MESSAGE_ID: Final = "message id:"
"""First characters of a key that is made of a message id."""


def key_of(message: Message, detects_duplicates: bool) -> str | None:
    """The key of one message; None if any fragment may have it."""
    if message.session_id is not None:
        return message.session_id
    key = partition_key(message)
    if key is not None:
        return key
    if detects_duplicates:
        message_id = duplicate_key(message)
        if message_id is not None:
            return _MESSAGE_ID + message_id.hex()
    return None


def id_key_of(message: Message) -> str | None:
    """What keeps a message without a key together with its other attempts: its send id,
    or what it was restored from. None if it has neither."""
    if message.layout & IDENTIFIED == 0:
        return None
    send_id = send_key(message)
    if send_id is not None:
        return "send id:" + send_id.hex()
    origin = restored_from(message)
    assert origin is not None
    return f"origin:{origin.source}:{origin.generation.hex()}:{origin.first}"


def common_marks(messages: list[Message]) -> int:
    """Which bits of the layout all these messages have: twinbus ids, and the one of a
    transfer queue."""
    marks = IDENTIFIED | IN_TRANSFER
    for message in messages:
        marks &= message.layout
    return marks


def common_key(
    messages: list[Message], detects_duplicates: bool, path: str
) -> str | None:
    """The key of all messages of a delivery. Raises NotAllowed if they differ: a batch
    is stored whole, in one fragment."""
    key = key_of(messages[0], detects_duplicates)
    for message in messages:
        other = key_of(message, detects_duplicates)
        if other != key:
            raise NotAllowed(
                f"The messages of a batch to the partitioned entity '{path}' have "
                f"different keys ({_shown(key)} and {_shown(other)}). Send those with "
                "the same session id or partition key together, or one by one.",
                entity_path=path,
            )
    return key


def _shown(key: str | None) -> str:
    if key is None:
        return "none"
    return "a message id" if key.startswith(_MESSAGE_ID) else f"'{key}'"
