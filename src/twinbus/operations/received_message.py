"""A message as a client gets it: with its number and, if it is locked, its lock."""

from typing import NamedTuple

from twinbus.broker.fragment import Fragment
from twinbus.broker.message import Message
from twinbus.broker.message_lock import MessageLock
from twinbus.encoding.outgoing import encode_delivery


class ReceivedMessage(NamedTuple):
    """A received or peeked message."""

    message: Message
    sequence_number: int
    # Of a message that is not locked: 0 and no bytes.
    locked_until: int = 0
    lock_token: bytes = b""

    def encoded(self) -> bytes:
        """The message with the annotations that clients read."""
        return encode_delivery(
            self.message, self.sequence_number, self.locked_until, self.lock_token
        )


def unlocked(fragment: Fragment, message: Message) -> ReceivedMessage:
    return ReceivedMessage(message, fragment.sequence_number(message))


def locked(fragment: Fragment, lock: MessageLock) -> ReceivedMessage:
    message = lock.message
    number = fragment.sequence_number(message)
    return ReceivedMessage(message, number, lock.ends_at(), lock.token)
