"""Which sessions of a fragment are held, who waits for one, and which may be free.

    free: ids that had a ready message and that nobody holds, oldest news first
    unknown: the store may have more of them; they are read in portions, by cursor

A receiver that asks for the next session gets one from `free`; whether it still has
messages is checked against the store before it is granted. `free` is bounded: what
does not fit is forgotten, and found again by reading the store from the beginning.
So a million sessions cost no memory, and one that is always busy does not keep the
others waiting: it goes to the end when it is given up.

This decides; the owner of the store reads and grants (`session_lock.py`).
"""

from abc import abstractmethod
from collections import deque
from heapq import heappop, heappush
from typing import final

from mypy_extensions import mypyc_attr

from twinbus.broker.held_session import HeldSession
from twinbus.errors import ServiceBusError
from twinbus.limits import FREE_SESSIONS


@mypyc_attr(allow_interpreted_subclasses=True)
class SessionWaiter:
    """Somebody who wants to hold a session: a named one, or (None) the next."""

    def __init__(self, session_id: str | None, give_up_at: int) -> None:
        self.session_id: str | None = session_id
        # When waiting ends, by the clock of the bus.
        self.give_up_at: int = give_up_at

    @abstractmethod
    def granted(self, session: HeldSession) -> None:
        """The session is held for this waiter."""

    @abstractmethod
    def refused(self, error: ServiceBusError) -> None:
        """It can't be had, or not in time."""


@final
class Sessions:
    """The sessions of one fragment, as far as memory knows them."""

    def __init__(self) -> None:
        self.held: dict[str, HeldSession] = {}
        self.waiters: deque[SessionWaiter] = deque()
        # Ordered by when they were noted.
        self._free: dict[str, None] = {}
        # The store may have sessions behind the cursor that are not in `_free`.
        self.has_unknown: bool = True
        self.cursor: str | None = None
        # One was forgotten since the cursor began.
        self._has_missed: bool = False
        # By the end of their locks; renewed and released ones are passed over.
        self._ends: list[tuple[int, int, HeldSession]] = []
        self._held_count: int = 0
        # Given up, the commit of which is under way.
        self._releasing: list[HeldSession] = []
        # Held sessions with something to deliver.
        self._stirred: list[HeldSession] = []

    # --- who is free ----------------------------------------------------------

    def note_free(self, session_id: str) -> None:
        """Nobody holds the session, and it may have ready messages."""
        if session_id in self._free:
            return
        if len(self._free) < FREE_SESSIONS:
            self._free[session_id] = None
        else:
            self._has_missed = True
            self.has_unknown = True

    def take_free(self) -> str | None:
        """A session that may be granted, the one that was noted first."""
        while self._free:
            session_id = next(iter(self._free))
            del self._free[session_id]
            if session_id not in self.held:
                return session_id
        return None

    def has_free(self) -> bool:
        return bool(self._free) or self.has_unknown

    def learn(self, session_ids: list[str], is_last: bool) -> None:
        """The store has these sessions behind the cursor, and `is_last`: no more."""
        for session_id in session_ids:
            if session_id not in self.held:
                self.note_free(session_id)
        if not is_last:
            self.cursor = session_ids[-1]
            return
        self.cursor = None
        self.has_unknown = self._has_missed
        self._has_missed = False

    # --- holding --------------------------------------------------------------

    def hold(self, session_id: str, locked_until: int, tail: int) -> HeldSession:
        session = HeldSession(session_id, locked_until, tail)
        self.held[session_id] = session
        self._free.pop(session_id, None)
        self._watch(session)
        return session

    def renew(self, session: HeldSession, locked_until: int) -> None:
        session.locked_until = locked_until
        self._watch(session)

    def _watch(self, session: HeldSession) -> None:
        self._held_count += 1
        heappush(self._ends, (session.locked_until, self._held_count, session))

    def ended(self, now: int) -> list[HeldSession]:
        """Held sessions whose locks have run out."""
        ended: list[HeldSession] = []
        while self._ends and self._ends[0][0] <= now:
            session = heappop(self._ends)[2]
            if not session.is_released and session.locked_until <= now:
                ended.append(session)
        return ended

    def has_timers(self) -> bool:
        return bool(self.held) or bool(self.waiters)

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

    def overdue(self, now: int) -> list[SessionWaiter]:
        """Those who have waited long enough; they wait no more."""
        overdue = [waiter for waiter in self.waiters if waiter.give_up_at <= now]
        for waiter in overdue:
            self.waiters.remove(waiter)
        return overdue
