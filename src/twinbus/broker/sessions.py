"""The sessions of a fragment: which are held, who waits for one, which may be free.

    news: ids of free sessions that got a ready message, oldest first
    found: ids read from the store, in portions with a cursor, until it has no more

A receiver that asks for the next session gets one from each list in turn. Before it is
granted, the store is asked whether the session still has messages. Both lists are
bounded: if news does not fit, it is dropped, and the store is read again from the
beginning. So a million sessions need no memory. Busy sessions are news again whenever
they are released; taking turns keeps them from blocking those that only the store
knows.

This module decides; the owner of the store reads and grants (`session_lock.py`).
"""

from abc import abstractmethod
from collections import deque
from typing import final

from mypy_extensions import mypyc_attr

from twinbus.broker.held_session import HeldSession
from twinbus.errors import ServiceBusError
from twinbus.limits import FREE_SESSIONS


@mypyc_attr(allow_interpreted_subclasses=True)
class SessionWaiter:
    """Waits for a session: for a named one, or (None) for the next.

    The waiter decides how long it waits, and leaves after that.
    """

    def __init__(self, session_id: str | None) -> None:
        self.session_id: str | None = session_id

    @abstractmethod
    def granted(self, session: HeldSession) -> None:
        """The session is held for this waiter."""

    @abstractmethod
    def refused(self, error: ServiceBusError) -> None:
        """The session cannot be granted."""


@final
class Sessions:
    """The sessions of one fragment, as far as they are in memory."""

    def __init__(self) -> None:
        # Ordered by the end of their locks: all have the same duration, and a renewal
        # moves its session to the end.
        self.held: dict[str, HeldSession] = {}
        # The latest end of a lock. A new lock that ends earlier (the duration was
        # shortened, the clock was set back) breaks the order until the next sort.
        self._latest_end: int = 0
        self._are_ordered: bool = True
        self.waiters: deque[SessionWaiter] = deque()
        # In the order in which they were noted.
        self._news: dict[str, None] = {}
        self._found: deque[str] = deque()
        # The store may have sessions after the cursor.
        self.has_unknown: bool = True
        self.cursor: str | None = None
        # News was dropped since the cursor was at the beginning.
        self._has_missed: bool = False
        # Which list has the next turn.
        self._prefers_found: bool = False
        # Released by a commit that is in progress.
        self._releasing: list[HeldSession] = []
        # Held sessions with messages to deliver.
        self._stirred: list[HeldSession] = []

    # --- free sessions --------------------------------------------------------

    def note_free(self, session_id: str) -> None:
        """The session is free, and may have ready messages."""
        if session_id in self._news:
            return
        if len(self._news) < FREE_SESSIONS:
            self._news[session_id] = None
        else:
            self._has_missed = True
            self.has_unknown = True

    def take_free(self) -> str | None:
        """A session that may be granted; both lists take turns."""
        while self._news or self._found:
            self._prefers_found = not self._prefers_found
            if self._found and (self._prefers_found or not self._news):
                session_id = self._found.popleft()
            else:
                session_id = next(iter(self._news))
                del self._news[session_id]
            if session_id not in self.held:
                return session_id
        return None

    def wants_more(self) -> bool:
        """True if the next portion must be read from the store."""
        return self.has_unknown and not self._found

    def learn(self, session_ids: list[str], is_last: bool) -> None:
        """Add sessions that the store has after the cursor; `is_last`: no more."""
        self._found.extend(session_ids)
        if not is_last:
            self.cursor = session_ids[-1]
            return
        self.cursor = None
        self.has_unknown = self._has_missed
        self._has_missed = False

    # --- holding --------------------------------------------------------------

    def hold(self, session_id: str, locked_until: int, tail: int) -> HeldSession:
        session = HeldSession(session_id, locked_until, tail)
        self._news.pop(session_id, None)
        self._append(session)
        return session

    def renew(self, session: HeldSession, locked_until: int) -> None:
        del self.held[session.session_id]
        session.locked_until = locked_until
        self._append(session)

    def _append(self, session: HeldSession) -> None:
        self.held[session.session_id] = session
        if session.locked_until < self._latest_end:
            self._are_ordered = False
        else:
            self._latest_end = session.locked_until

    def ended(self, now: int) -> list[HeldSession]:
        """Held sessions whose locks have run out."""
        if not self._are_ordered:
            self._reorder()
        ended: list[HeldSession] = []
        for session in self.held.values():
            if session.locked_until > now:
                break
            if not session.is_released:
                ended.append(session)
        return ended

    def _reorder(self) -> None:
        by_end = sorted(self.held.values(), key=_end_of)
        self.held = {session.session_id: session for session in by_end}
        self._latest_end = by_end[-1].locked_until if by_end else 0
        self._are_ordered = True

    def has_timers(self) -> bool:
        return bool(self.held)

    def release(self, session: HeldSession) -> None:
        """The holder gave the session up; it becomes free by the next commit."""
        session.is_released = True
        session.window.let_go()
        self._releasing.append(session)

    def seal(self) -> list[HeldSession]:
        """Sessions that become free by the commit of this change set."""
        releasing = self._releasing
        self._releasing = []
        return releasing

    def freed(self, sessions: list[HeldSession]) -> None:
        """After the commit: these sessions are free."""
        for session in sessions:
            if self.held.get(session.session_id) is session:
                del self.held[session.session_id]
                self.note_free(session.session_id)

    def live(self, session_id: str | None) -> HeldSession | None:
        """The session, if it is held and not released."""
        if session_id is None:
            return None
        session = self.held.get(session_id)
        return None if session is None or session.is_released else session

    # --- sessions with messages -----------------------------------------------

    def stir(self, session: HeldSession) -> None:
        """The session has messages to deliver."""
        if not session.is_stirred:
            session.is_stirred = True
            self._stirred.append(session)

    def take_stirred(self) -> list[HeldSession]:
        stirred = self._stirred
        self._stirred = []
        for session in stirred:
            session.is_stirred = False
        return stirred

    # --- waiting --------------------------------------------------------------

    def leave(self, waiter: SessionWaiter) -> None:
        """The waiter waits no longer."""
        if waiter in self.waiters:
            self.waiters.remove(waiter)


def _end_of(session: HeldSession) -> int:
    return session.locked_until
