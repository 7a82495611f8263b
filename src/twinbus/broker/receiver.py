"""A receiver of a fragment, as the fragment sees it.

A receiver reports its capacity and gets messages: locked ones at once, or, in
receive-and-delete mode, messages whose removal is already durable. AMQP links and the
clients of the simulator implement it.
"""

from abc import abstractmethod

from mypy_extensions import mypyc_attr

from twinbus.broker.changes import ChangeSet
from twinbus.broker.held_session import HeldSession
from twinbus.broker.message import Message
from twinbus.broker.message_lock import MessageLock


@mypyc_attr(allow_interpreted_subclasses=True)
class Receiver:
    """Receives messages of one fragment."""

    def __init__(self, actor: int, peek_lock: bool) -> None:
        # Its number in the operation log.
        self.actor: int = actor
        # False: receive-and-delete.
        self.peek_lock: bool = peek_lock
        # Messages for it whose removal is not committed yet.
        self.promised_count: int = 0
        # Messages are neither locked nor promised, but passed to `forward`.
        self.forwards: bool = False
        # The session that it receives from, if sessions are required.
        self.session: HeldSession | None = None

    @abstractmethod
    def capacity(self) -> int:
        """How many messages it can take now, by credit and room in its write buffer."""

    @abstractmethod
    def deliver_locked(self, locks: list[MessageLock]) -> None:
        """Hand over locked messages."""

    @abstractmethod
    def deliver_removed(self, messages: list[Message]) -> None:
        """Hand over messages that are no longer in the fragment."""

    def forward(self, messages: list[Message], now: int, changes: ChangeSet) -> None:
        """Forward messages that were taken, in this change set."""
        raise AssertionError("this receiver does not forward")

    @abstractmethod
    def served(self) -> None:
        """All messages available for it were delivered: answer a drain request."""

    @abstractmethod
    def session_lost(self) -> None:
        """The lock on its session has run out."""
