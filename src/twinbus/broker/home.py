"""Where fragments live: one store, the change set that it commits next, and a loop.

Every fragment knows its home, and every change set belongs to one. So whoever has a
fragment has all it takes to change it, and a fragment of one store cannot get into the
change set of another: that is a bug, and the first touch finds it.

The owner of a store is the home of its fragments. Those that nobody serves (a check, a
recovery) have a home that only knows the change set.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from twinbus.broker.changes import ChangeSet
from twinbus.broker.commit_listener import Listeners
from twinbus.broker.fragment_settings import NO_LIMIT
from twinbus.broker.message_ids import MessageIds
from twinbus.limits import SEND_ID_WINDOW_MS

if TYPE_CHECKING:
    from twinbus.broker.admission import Admission
    from twinbus.broker.fragment import Fragment
    from twinbus.broker.receiver import Receiver
    from twinbus.broker.sessions import SessionWaiter


def _unserved() -> AssertionError:
    """A bug: only an owner commits, serves receivers and has randomness."""
    return AssertionError("nobody serves the fragments of this home")


def _no_entropy(count: int) -> bytes:
    raise _unserved()


@mypyc_attr(allow_interpreted_subclasses=True)
class Home:
    """Applies commands, commits them, and serves receivers."""

    def __init__(
        self,
        entropy: Callable[[int], bytes] = _no_entropy,
        send_id_window_ms: int = SEND_ID_WINDOW_MS,
    ) -> None:
        # The open change set, and who waits for it.
        self.changes: ChangeSet = ChangeSet(self)
        self.listeners: Listeners = Listeners()
        # Messages are refused until then, because the store was full.
        self.refuses_until: int = 0
        # Larger messages are refused: the store has little room left.
        self.room_bytes: int = NO_LIMIT
        # How long the id of a send is remembered.
        self.send_id_window_ms: int = send_id_window_ms
        # For messages that come without an id.
        self.message_ids: MessageIds = MessageIds(entropy)

    def wake(self) -> None:
        """Something was written to the open change set."""
        raise _unserved()

    def admit(self, admission: "Admission") -> None:
        """Apply this after a look at the store, before the next commit."""
        raise _unserved()

    def expect(self, scheduled_at: int) -> None:
        """A message was scheduled."""
        raise _unserved()

    def join(self, fragment: "Fragment", receiver: "Receiver") -> None:
        """The receiver wants messages of the fragment."""
        raise _unserved()

    def leave(self, fragment: "Fragment", receiver: "Receiver") -> None:
        """The receiver is gone."""
        raise _unserved()

    def offer_capacity(self, fragment: "Fragment", receiver: "Receiver") -> None:
        """The receiver can take messages; it may be served before this returns."""
        raise _unserved()

    def wait_for_session(self, fragment: "Fragment", waiter: "SessionWaiter") -> None:
        """Grant a session as soon as one is free; the waiter is told."""
        raise _unserved()

    def introduce(self, description: str) -> int:
        """A number for the operation log, for somebody who will act."""
        raise _unserved()

    def entropy(self, count: int) -> bytes:
        """So many random bytes."""
        raise _unserved()
