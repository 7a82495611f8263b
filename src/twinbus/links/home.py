"""What a link needs of the place where its queue lives.

The owner of a store implements it in the server; a test may do so with less.
"""

from typing import Final, Protocol

from twinbus.broker.admission import Admission
from twinbus.broker.changes import ChangeSet
from twinbus.broker.fragment import Fragment
from twinbus.broker.receiver import Receiver
from twinbus.errors import STORE_TROUBLE
from twinbus.links.commit_listener import Listeners
from twinbus.links.extensions import Extensions
from twinbus.links.message_ids import MessageIds

STORE_IS_FULL: Final = (
    "The message store is full and cannot take the operation. Free disk space on the "
    f"server, or receive messages, then try again. {STORE_TROUBLE}"
)


class Home(Protocol):
    """Applies commands, commits them, and serves receivers."""

    changes: ChangeSet
    listeners: Listeners
    # Before that instant messages are refused, because the store was full.
    refuses_until: int
    # What is larger than that is refused: there is little room left in the store.
    room_bytes: int
    # What is offered beyond Service Bus.
    extensions: Extensions
    # For messages that come without an id.
    message_ids: MessageIds

    def wake(self) -> None:
        """Something was written to the open change set."""
        ...

    def admit(self, admission: Admission) -> None:
        """Apply this after a look at the store, before the next commit."""
        ...

    def expect(self, scheduled_at: int) -> None:
        """A message was scheduled."""
        ...

    def join(self, fragment: Fragment, receiver: Receiver) -> None: ...

    def leave(self, fragment: Fragment, receiver: Receiver) -> None: ...

    def offer_capacity(self, fragment: Fragment, receiver: Receiver) -> None: ...

    def entropy(self, count: int) -> bytes: ...
