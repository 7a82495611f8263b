"""Grants sessions to those who wait for one, after a look at the store.

A named session is granted if nobody holds it, with messages or without. The next
session is one that has messages: its first ones are read before it is granted, and
if there are none the next is tried. The owner of the store calls this in its turn,
right after the commit, so that what the last holder settled is not found again.
"""

from typing import TYPE_CHECKING, Final

from twinbus.broker import expiry, session_lock
from twinbus.broker.fragment import Fragment
from twinbus.broker.message import Message
from twinbus.broker.row_id import sequence_of
from twinbus.broker.sessions import Sessions, SessionWaiter
from twinbus.errors import SessionCannotBeLocked
from twinbus.limits import WINDOW_BYTES, WINDOW_MESSAGES
from twinbus.store.base import Store

if TYPE_CHECKING:
    from twinbus.owner.store_owner import StoreOwner

_PORTION: Final = 200
"""Session ids read from the store at once."""


class SessionGrants:
    """Grants the sessions of one store."""

    def __init__(self, owner: "StoreOwner", store: Store) -> None:
        self._owner = owner
        self._store = store

    async def serve(self, fragment: Fragment) -> None:
        """Grant what can be granted to those who wait at the fragment."""
        if fragment.is_dropped or fragment.sessions is None:
            return
        if fragment.lease is not None:
            return  # they wait until it has ended
        sessions = fragment.sessions
        for waiter in list(sessions.waiters):
            if waiter.session_id is not None:
                self._serve_named(fragment, sessions, waiter, waiter.session_id)
        waiting = [w for w in sessions.waiters if w.session_id is None]
        for waiter in waiting:
            if not await self._serve_next(fragment, sessions, waiter):
                return

    def _serve_named(
        self,
        fragment: Fragment,
        sessions: Sessions,
        waiter: SessionWaiter,
        session_id: str,
    ) -> None:
        held = sessions.held.get(session_id)
        if held is None:
            sessions.waiters.remove(waiter)
            session = session_lock.hold(fragment, session_id, self._owner.clock.now())
            waiter.granted(session)
            self._owner.watch(fragment)
        elif not held.is_released:
            sessions.waiters.remove(waiter)
            path = fragment.settings.path
            waiter.refused(SessionCannotBeLocked.named(session_id, entity_path=path))

    async def _serve_next(
        self, fragment: Fragment, sessions: Sessions, waiter: SessionWaiter
    ) -> bool:
        """False if no session is free."""
        while (session_id := await self._next_free(fragment, sessions)) is not None:
            messages = await self._store.read_session(
                fragment.number, session_id, 0, WINDOW_MESSAGES, WINDOW_BYTES
            )
            if fragment.sessions is not sessions or fragment.is_dropped:
                return False
            if fragment.lease is not None:
                sessions.note_free(session_id)
                return False  # granted while the store was read
            if waiter not in sessions.waiters:
                sessions.note_free(session_id)
                return True
            if not messages:
                continue
            if self._have_expired(messages):
                sessions.note_free(session_id)
                if not await self._expire(fragment, messages):
                    return False
                continue
            sessions.waiters.remove(waiter)
            self._grant(fragment, waiter, session_id, messages)
            return True
        return False

    def _have_expired(self, messages: list[Message]) -> bool:
        """All of them. With one that has not, the session can be granted."""
        now = self._owner.clock.now()
        return all(0 < message.expires_at <= now for message in messages)

    async def _expire(self, fragment: Fragment, messages: list[Message]) -> bool:
        """Expire messages before the sweep does; False if that was not committed."""
        now, changes = self._owner.clock.now(), self._owner.changes
        for message in messages:
            expiry.expire_unloaded(fragment, message, now, changes)
        return await self._owner.commit_now()

    def _grant(
        self,
        fragment: Fragment,
        waiter: SessionWaiter,
        session_id: str,
        messages: list[Message],
    ) -> None:
        session = session_lock.hold(fragment, session_id, self._owner.clock.now())
        fragment.refill(messages, sequence_of(messages[-1].row_id), session)
        waiter.granted(session)
        self._owner.watch(fragment)

    async def _next_free(self, fragment: Fragment, sessions: Sessions) -> str | None:
        while True:
            if sessions.wants_more():
                found = await self._store.active_sessions(
                    fragment.number, sessions.cursor, _PORTION
                )
                sessions.learn(found, len(found) < _PORTION)
            session_id = sessions.take_free()
            if session_id is not None or not sessions.has_unknown:
                return session_id
