"""A change of a session's state, alone or in a transaction."""

from twinbus.broker import session_lock
from twinbus.broker.admission import Duplicates
from twinbus.broker.changes import SessionState
from twinbus.broker.fragment import Fragment
from twinbus.broker.held_session import HeldSession
from twinbus.broker.transaction import Work
from twinbus.links.sending import check_room


class SessionStateChange(Work):
    """A new state of a held session. Only the holder may change it."""

    def __init__(
        self, fragment: Fragment, session: HeldSession, state: bytes | None
    ) -> None:
        super().__init__(fragment.home, fragment.settings.path)
        self._fragment = fragment
        self._session = session
        self._state = state
        self.target = fragment
        # The full size, although it replaces another state: until the commit all of it
        # is held in memory.
        self.added_bytes = len(state or b"")

    def check(self, now: int) -> None:
        fragment, session = self._fragment, self._session
        fragment.check_exists()
        if session_lock.held(fragment, session.session_id, now) is not session:
            raise fragment.lock_lost()

    def check_room(self, now: int) -> None:
        """Raises QuotaExceeded or ServerBusy if there is no room for the growth."""
        added_bytes = self._growth()
        if added_bytes > 0:
            check_room(self._fragment, added_bytes, now)

    def apply(self, duplicates: Duplicates, now: int) -> None:
        self.write(now)

    def write(self, now: int) -> None:
        """Write the state, and count its growth."""
        fragment, session, changes = self._fragment, self._session, self.home.changes
        fragment.resize(self._growth())
        session.state_bytes = len(self._state or b"")
        fragment.touch(changes)
        changes.session_states.append(
            SessionState(
                fragment_number=fragment.number,
                session_id=session.session_id,
                state=self._state,
                updated_at=now,
            )
        )

    def _growth(self) -> int:
        return len(self._state or b"") - self._session.state_bytes
