"""What a fragment knows of somebody who receives from it.

A receiver says how much it would take now and is handed messages: locked ones at
once, or, in receive-and-delete, messages whose removal is durable already (D14).
The AMQP link, the simulator's client and later doors implement it.
"""

from abc import abstractmethod

from mypy_extensions import mypyc_attr

from twinbus.broker.changes import ChangeSet
from twinbus.broker.held_session import HeldSession
from twinbus.broker.message import Message
from twinbus.broker.message_lock import MessageLock


@mypyc_attr(allow_interpreted_subclasses=True)
class Receiver:
    """Takes messages of one fragment."""

    def __init__(self, actor: int, peek_lock: bool) -> None:
        # Who this is in the operation log.
        self.actor: int = actor
        # False: receive and delete.
        self.peek_lock: bool = peek_lock
        # Messages promised to it whose removal is being committed.
        self.promised_count: int = 0
        # Messages are neither locked nor promised but handed to `forward`.
        self.forwards: bool = False
        # The session it receives from, where sessions are required.
        self.session: HeldSession | None = None

    @abstractmethod
    def capacity(self) -> int:
        """How many messages it takes now: credit, and room to write to."""

    @abstractmethod
    def deliver_locked(self, locks: list[MessageLock]) -> None:
        """Hand over locked messages."""

    @abstractmethod
    def deliver_removed(self, messages: list[Message]) -> None:
        """Hand over messages that are no longer in the fragment."""

    def forward(self, messages: list[Message], now: int, changes: ChangeSet) -> None:
        """Put messages that were taken where they belong, in this change set."""
        raise AssertionError("it does not forward")

    @abstractmethod
    def served(self) -> None:
        """Everything that was there for it has been handed over: answer a drain."""

    @abstractmethod
    def session_lost(self) -> None:
        """The lock on its session has run out."""
