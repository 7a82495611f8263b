"""A message for a client: its bytes, its number and, if it is locked, its token."""

from typing import NamedTuple

from twinbus.broker.fragment import Fragment
from twinbus.broker.message import Message
from twinbus.broker.message_lock import MessageLock
from twinbus.encoding.outgoing import encode_delivery


class ReceivedMessage(NamedTuple):
    """A received or peeked message."""

    # With the annotations that clients read. Encoded at once: after the delivery, the
    # bytes of a locked message may be dropped from memory.
    encoded: bytes
    sequence_number: int
    # Empty if the message is not locked.
    lock_token: bytes = b""


def unlocked(fragment: Fragment, message: Message) -> ReceivedMessage:
    number = fragment.sequence_number(message)
    return ReceivedMessage(encode_delivery(message, number, 0), number)


def locked(fragment: Fragment, lock: MessageLock) -> ReceivedMessage:
    """Call this before `Fragment.delivered`, which may drop the bytes."""
    number, token = fragment.sequence_number(lock.message), lock.token
    encoded = encode_delivery(lock.message, number, lock.ends_at(), token)
    return ReceivedMessage(encoded, number, token)
