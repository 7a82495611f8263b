"""A session that a receiver holds: its lock, and the head of its messages.

One receiver at a time holds a session and gets its messages in order. Only held
sessions are in memory; the others are in the store, however many there are. The locks
of a session's messages end with the session's lock.
"""

from typing import TYPE_CHECKING, final

from twinbus.broker.window import Window

if TYPE_CHECKING:
    from twinbus.broker.message_lock import MessageLock
    from twinbus.broker.receiver import Receiver


@final
class HeldSession:
    """One receiver's lock on one session."""

    def __init__(self, session_id: str, locked_until: int, tail: int) -> None:
        self.session_id: str = session_id
        # When the lock ends, unless it is renewed.
        self.locked_until: int = locked_until
        # Ready messages of this session; `tail` is the fragment's.
        self.window: Window = Window(tail)
        self.window.open_wide()
        # Live locks of its messages, by row id.
        self.locks: dict[int, MessageLock] = {}
        # Messages that become ready by the commit in progress. Nothing is delivered
        # before them, since they are first in order.
        self.returning_count: int = 0
        # Is notified when the lock runs out.
        self.receiver: Receiver | None = None
        # Size of the session state; -1 before it was read from the store.
        self.state_bytes: int = -1
        # Given up; free for other receivers after the commit in progress.
        self.is_released: bool = False
        # Has messages to deliver.
        self.is_stirred: bool = False
