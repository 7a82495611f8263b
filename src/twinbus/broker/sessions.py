"""Which sessions of a fragment are held, who waits for one, and which may be free.

    news: ids that had a ready message and that nobody holds, oldest news first
    found: ids that the store has, read in portions, by cursor, until it has no more

A receiver that asks for the next session gets one of these in turn; whether it still
has messages is checked against the store before it is granted. Both are bounded: news
that does not fit is forgotten, and found again by reading the store from the beginning.
So a million sessions cost no memory; and sessions that are always busy, which are news
whenever they are given up, do not keep those waiting of which only the store knows.

This decides; the owner of the store reads and grants (`session_lock.py`).
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
    """Somebody who wants to hold a session: a named one, or (None) the next.

    How long it waits is its own affair; it leaves when it has waited enough.
    """

    def __init__(self, session_id: str | None) -> None:
        self.session_id: str | None = session_id

    @abstractmethod
    def granted(self, session: HeldSession) -> None:
        """The session is held for this waiter."""

    @abstractmethod
    def refused(self, error: ServiceBusError) -> None:
        """It can't be had."""


@final
class Sessions:
    """The sessions of one fragment, as far as memory knows them."""

    def __init__(self) -> None:
        # The one whose lock ends first in front: the duration is the same for all,
        # and a renewal moves its session to the end.
        self.held: dict[str, HeldSession] = {}
        # The end of the last one in that order; one that ends before it (the duration
        # was shortened, the clock set back) breaks the order for a while.
        self._latest_end: int = 0
        self._are_ordered: bool = True
        self.waiters: deque[SessionWaiter] = deque()
        # Ordered by when they were noted.
        self._news: dict[str, None] = {}
        self._found: deque[str] = deque()
        # The store may have sessions behind the cursor.
        self.has_unknown: bool = True
        self.cursor: str | None = None
        # One was forgotten since the cursor began.
        self._has_missed: bool = False
        # Whose turn it is: what the store has, or what is news.
        self._prefers_found: bool = False
        # Given up, the commit of which is under way.
        self._releasing: list[HeldSession] = []
        # Held sessions with something to deliver.
        self._stirred: list[HeldSession] = []

    # --- who is free ----------------------------------------------------------

    def note_free(self, session_id: str) -> None:
        """Nobody holds the session, and it may have ready messages."""
        if session_id in self._news:
            return
        if len(self._news) < FREE_SESSIONS:
            self._news[session_id] = None
        else:
            self._has_missed = True
            self.has_unknown = True

    def take_free(self) -> str | None:
        """A session that may be granted, in turn from both kinds."""
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
        """The next portion is to be read from the store."""
        return self.has_unknown and not self._found

    def learn(self, session_ids: list[str], is_last: bool) -> None:
        """The store has these sessions behind the cursor, and `is_last`: no more."""
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
        """The session is given up; it becomes free with the next commit."""
        session.is_released = True
        session.window.let_go()
        self._releasing.append(session)

    def seal(self) -> list[HeldSession]:
        """Those that become free with the commit of the set being closed."""
        releasing = self._releasing
        self._releasing = []
        return releasing

    def freed(self, sessions: list[HeldSession]) -> None:
        """The commit happened."""
        for session in sessions:
            if self.held.get(session.session_id) is session:
                del self.held[session.session_id]
                self.note_free(session.session_id)

    def live(self, session_id: str | None) -> HeldSession | None:
        """The session if it is held and not given up."""
        if session_id is None:
            return None
        session = self.held.get(session_id)
        return None if session is None or session.is_released else session

    # --- news -----------------------------------------------------------------

    def stir(self, session: HeldSession) -> None:
        """The session has something to deliver."""
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
        """Whoever waited is gone."""
        if waiter in self.waiters:
            self.waiters.remove(waiter)


def _end_of(session: HeldSession) -> int:
    return session.locked_until
