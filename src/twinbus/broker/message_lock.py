"""Peek-lock: one receiver's claim on one message, for a while.

Locks live in memory only. Their token holds the index of the fragment within its
entity (16 bits), the epoch in which its store was opened (24), the sequence number (48)
and random bits (40) (D14). So any broker finds the fragment of a token by the placement
of its entity, a token from before a restart or a takeover is known to be lost, and a
token cannot be guessed.

The 16 bytes are the delivery tag. As a uuid in `$management` the same bytes are
read in the mixed-endian order of .NET; that translation is the server's.
"""

from typing import TYPE_CHECKING, Final, final

from twinbus.broker.message import Message

if TYPE_CHECKING:
    from twinbus.broker.held_session import HeldSession
    from twinbus.broker.transaction import Transaction

ENTROPY_BYTES: Final = 5
EPOCH_BITS: Final = 24

WITH_ITS_SESSION: Final = 1 << 62
"""`locked_until` of a message in a session: never by itself."""


@final
class MessageLock:
    """A message handed to a receiver and not settled yet."""

    def __init__(self, message: Message, token: bytes, locked_until: int) -> None:
        self.message: Message = message
        # The delivery tag, unique for every delivery.
        self.token: bytes = token
        # When the lock ends by itself; renewal moves it.
        self.locked_until: int = locked_until
        # Whoever was handed the message; opaque here.
        self.holder: object = None
        # The session it ends with, in place of `locked_until`; None without one.
        self.session: HeldSession | None = None
        # The transaction that ends it, if that is committed before the lock's end.
        self.enlisted_in: Transaction | None = None

    def ends_at(self) -> int:
        """When it runs out unless somebody renews it."""
        session = self.session
        return self.locked_until if session is None else session.locked_until

    def is_live(self, now: int) -> bool:
        """The lock has not run out."""
        return now < self.ends_at()


def token_prefix(fragment_index: int, epoch: int) -> bytes:
    """What all tokens of a fragment in this epoch begin with."""
    epoch &= (1 << EPOCH_BITS) - 1
    return fragment_index.to_bytes(2, "big") + epoch.to_bytes(3, "big")


def token_fragment(token: bytes) -> int:
    """Which of its entity's fragments issued the token."""
    return int.from_bytes(token[:2], "big")


def token_sequence(token: bytes) -> int:
    """The sequence number of the message that the token locks."""
    return int.from_bytes(token[5:11], "big")
