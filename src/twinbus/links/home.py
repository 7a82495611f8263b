"""What a link needs of the place where its queue lives.

The owner of a store implements it in the server; a test may do so with less.
"""

from typing import Protocol

from twinbus.broker.changes import ChangeSet
from twinbus.broker.fragment import Fragment
from twinbus.broker.receiver import Receiver
from twinbus.links.commit_listener import Listeners


class Home(Protocol):
    """Applies commands, commits them, and serves receivers."""

    changes: ChangeSet
    listeners: Listeners

    def wake(self) -> None:
        """Something was written to the open change set."""
        ...

    def expect(self, scheduled_at: int) -> None:
        """A message was scheduled."""
        ...

    def join(self, fragment: Fragment, receiver: Receiver) -> None: ...

    def leave(self, fragment: Fragment, receiver: Receiver) -> None: ...

    def offer_capacity(self, fragment: Fragment, receiver: Receiver) -> None: ...

    def entropy(self, count: int) -> bytes: ...
