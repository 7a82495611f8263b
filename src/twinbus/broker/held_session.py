"""A session that a receiver holds: its lock, and the head of its messages.

A session is held by one receiver at a time, which gets its messages in order. Only
held sessions are in memory; of the others the store alone knows (D3), however many
there are. The locks of a session's messages end with the session's.
"""

from typing import TYPE_CHECKING, final

from twinbus.broker.window import Window

if TYPE_CHECKING:
    from twinbus.broker.message_lock import MessageLock
    from twinbus.broker.receiver import Receiver


@final
class HeldSession:
    """One receiver's claim on one session, for a while."""

    def __init__(self, session_id: str, locked_until: int, tail: int) -> None:
        self.session_id: str = session_id
        # When the claim ends by itself; renewal moves it.
        self.locked_until: int = locked_until
        # Ready messages of this session; `tail` is the fragment's.
        self.window: Window = Window(tail)
        self.window.open_wide()
        # Live locks of its messages, by row id.
        self.locks: dict[int, MessageLock] = {}
        # Messages that come back with the commit under way. Until then nothing is
        # delivered: they come first.
        self.returning_count: int = 0
        # Who is told when the claim ends by itself.
        self.receiver: Receiver | None = None
        # Size of the state that is kept with it; -1 before somebody asked the store.
        self.state_bytes: int = -1
        # Given up; free for others once the commit under way has happened.
        self.is_released: bool = False
        # Has news for its receiver.
        self.is_stirred: bool = False
