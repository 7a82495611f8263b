"""The home of fragments: one store, its open change set, and the loop that commits it.

Every fragment refers to its home, and every change set belongs to one. So a fragment is
all that a caller needs to change it. A fragment of one store cannot get into the change
set of another: that would be a bug, and the first touch raises.

The owner of a store is the home of its fragments. Fragments that are not served (during
a check or a recovery) have a home that only has the change set.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from twinbus.broker.changes import ChangeSet
from twinbus.broker.commit_listener import Listeners
from twinbus.broker.fragment_settings import NO_LIMIT
from twinbus.broker.log_book import LogBook
from twinbus.broker.message_ids import MessageIds
from twinbus.broker.outbox import StoreOutbox
from twinbus.errors import STORE_IS_FULL
from twinbus.limits import SEND_ID_WINDOW_MS

if TYPE_CHECKING:
    from twinbus.broker.admission import Admission
    from twinbus.broker.fragment import Fragment
    from twinbus.broker.receiver import Receiver
    from twinbus.broker.sessions import SessionWaiter


ALL_FRAGMENTS: Final = (b"", -1)
"""Stands for all fragments of a store in `Home.awaited`."""


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
        # False while the store is away: nothing can be sent to its fragments.
        self.is_serving: bool = True
        # Since when it has been away; 0 while it serves.
        self.away_since: int = 0
        # Since when it has taken no messages although it serves: it is full, can only
        # be read, or its commits fail. 0 while it takes them.
        self.refused_since: int = 0
        # Another broker may serve the store while it is away here.
        self.is_shared: bool = False
        # Identifies the store.
        self.store_uuid: bytes = b""
        # What waits here for fragments of other stores.
        self.outbox: StoreOutbox = StoreOutbox()
        # By generation and index: fragments of this store for which messages that were
        # sent before wait in the outbox of another one. ALL_FRAGMENTS: nobody knows yet
        # for which, because another broker has that outbox.
        self.awaited: dict[tuple[bytes, int], Home] = {}
        # A commit is under way; what comes now waits for the one after it.
        self.is_committing: bool = False
        # The open change set, and the listeners that wait for it.
        self.changes: ChangeSet = ChangeSet(self)
        self.listeners: Listeners = Listeners()
        # Until then messages are refused, because the store is full or too slow, or the
        # process has too much to do.
        self.refuses_until: int = 0
        # What senders are told until then.
        self.refusal: str = STORE_IS_FULL
        # Larger messages are refused, because the store is almost full.
        self.room_bytes: int = NO_LIMIT
        # How long the ids of sends are remembered.
        self.send_id_window_ms: int = send_id_window_ms
        # Who acts, for the operation log.
        self.book: LogBook = LogBook()
        # Ids for messages that have none.
        self.message_ids: MessageIds = MessageIds(entropy)
        # The loop turns without being woken. Set by the owner.
        self.must_turn: bool = False
        # Bytes of work that waits for a look-up in the store.
        self.admitted_bytes: int = 0
        # Reading from sockets pauses if more bytes are pending.
        self.pending_limit_bytes: int = NO_LIMIT

    def wake(self) -> None:
        """The open change set has something to commit: see `commit_soon`."""
        raise _unserved()

    def admit(self, admission: "Admission") -> None:
        """Apply this work after a look-up in the store, before the next commit."""
        raise _unserved()

    def expect(self, scheduled_at: int) -> None:
        """A message was scheduled for this time."""
        raise _unserved()

    def join(self, fragment: "Fragment", receiver: "Receiver") -> None:
        """Deliver messages of the fragment to this receiver."""
        raise _unserved()

    def leave(self, fragment: "Fragment", receiver: "Receiver") -> None:
        """Deliver no more to this receiver."""
        raise _unserved()

    def offer_capacity(self, fragment: "Fragment", receiver: "Receiver") -> None:
        """The receiver can take messages. They may be delivered before this returns."""
        raise _unserved()

    def wait_for_session(self, fragment: "Fragment", waiter: "SessionWaiter") -> None:
        """Grant the waiter a session as soon as one is free."""
        raise _unserved()

    def introduce(self, description: str) -> int:
        """Register an actor in the operation log, and return its number. Whoever does
        so dismisses it in the end."""
        return self.book.introduce(description)

    def dismiss(self, actor: int) -> None:
        """The actor does nothing any more."""
        self.book.dismiss(actor)

    def entropy(self, count: int) -> bytes:
        """This many random bytes."""
        raise _unserved()


def pending_bytes(home: Home) -> int:
    """Bytes of messages that were received and are not in the store yet."""
    return home.changes.pending_bytes + home.admitted_bytes


def commit_soon(home: Home) -> None:
    """Something was written to the open change set.

    Every message calls this, and the `wake` of an owner is interpreted. So it is called
    only if it has something to do: to wake the loop, or to note that too much is
    pending.
    """
    if not home.must_turn or pending_bytes(home) > home.pending_limit_bytes:
        home.wake()
