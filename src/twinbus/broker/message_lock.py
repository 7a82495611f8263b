"""Peek-lock: one receiver's lock on one message.

Locks are in memory only. A token holds the index of the fragment within its entity (16
bits), the epoch in which the store was opened (24), the sequence number (48) and random
bits (40). So any broker finds the fragment of a token by the placement of its entity,
recognizes a token from before a restart or takeover as lost, and nobody can guess a
token.

The 16 bytes are the delivery tag. In `$management` the same bytes are a uuid in the
mixed-endian order of .NET; the server converts them.
"""

from typing import TYPE_CHECKING, Final, final

from twinbus.broker.message import Message

if TYPE_CHECKING:
    from twinbus.broker.held_session import HeldSession
    from twinbus.broker.transaction import Transaction

ENTROPY_BYTES: Final = 5
EPOCH_BITS: Final = 24

WITH_ITS_SESSION: Final = 1 << 62
"""`locked_until` of a message in a session: its lock ends with the session's."""

RESERVED: Final = 1 << 61
"""`locked_until` of a message that another broker has and has not handed out: the time
of its lock begins when it does."""


@final
class MessageLock:
    """A message handed to a receiver and not settled yet."""

    def __init__(self, message: Message, token: bytes, locked_until: int) -> None:
        self.message: Message = message
        # The delivery tag, unique for every delivery.
        self.token: bytes = token
        # When the lock ends, unless it is renewed.
        self.locked_until: int = locked_until
        # The receiver; any object.
        self.holder: object = None
        # The session whose lock ends it, instead of `locked_until`; None if none.
        self.session: HeldSession | None = None
        # The open transaction that settles the message, if there is one.
        self.enlisted_in: Transaction | None = None

    def ends_at(self) -> int:
        """When it ends, unless it is renewed."""
        session = self.session
        return self.locked_until if session is None else session.locked_until

    def is_live(self, now: int) -> bool:
        """The lock has not run out."""
        return now < self.ends_at()


def token_prefix(fragment_index: int, epoch: int) -> bytes:
    """The first bytes of all tokens of a fragment in this epoch."""
    epoch &= (1 << EPOCH_BITS) - 1
    return fragment_index.to_bytes(2, "big") + epoch.to_bytes(3, "big")


def token_fragment(token: bytes) -> int:
    """The index of the fragment that issued the token."""
    return int.from_bytes(token[:2], "big")


def token_sequence(token: bytes) -> int:
    """The sequence number of the message that the token locks."""
    return int.from_bytes(token[5:11], "big")
