"""A message as a client gets it: with its number and, if it is locked, its lock."""

from typing import NamedTuple

from twinbus.broker.fragment import Fragment
from twinbus.broker.message import Message
from twinbus.broker.message_lock import MessageLock
from twinbus.encoding.outgoing import encode_delivery


class ReceivedMessage(NamedTuple):
    """A received or peeked message."""

    # With the annotations that clients read. Encoded at once: a locked message may
    # leave its bytes to the store as soon as it is delivered.
    encoded: bytes
    sequence_number: int
    # Of a message that is not locked: no bytes.
    lock_token: bytes = b""


def unlocked(fragment: Fragment, message: Message) -> ReceivedMessage:
    number = fragment.sequence_number(message)
    return ReceivedMessage(encode_delivery(message, number, 0), number)


def locked(fragment: Fragment, lock: MessageLock) -> ReceivedMessage:
    """Before the fragment is told that it is delivered."""
    number, token = fragment.sequence_number(lock.message), lock.token
    encoded = encode_delivery(lock.message, number, lock.ends_at(), token)
    return ReceivedMessage(encoded, number, token)
