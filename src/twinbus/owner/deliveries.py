"""Who receives from the fragments of a store, and gets what their windows hold.

Each fragment with receivers has a dispatch; so has each session that is held. They are
served when messages were committed, when a receiver can take more, and when a read has
brought what was missing in memory.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from twinbus.broker import session_lock
from twinbus.broker.dispatch import Dispatch
from twinbus.broker.fragment import Fragment
from twinbus.broker.held_session import HeldSession
from twinbus.broker.receiver import Receiver
from twinbus.broker.sessions import SessionWaiter
from twinbus.owner.promises import Promises
from twinbus.owner.refills import Refills
from twinbus.owner.session_grants import SessionGrants
from twinbus.owner.timed_fragments import TimedFragments
from twinbus.store.base import Store

if TYPE_CHECKING:
    from twinbus.owner.store_owner import StoreOwner


class Deliveries:
    """To the receivers of one store."""

    def __init__(
        self,
        owner: "StoreOwner",
        store: Store,
        timed: TimedFragments,
        entropy: Callable[[int], bytes],
    ) -> None:
        self._owner = owner
        self._timed = timed
        self._entropy = entropy
        # Receivers by fragment number, those of held sessions apart.
        self._dispatches: dict[int, Dispatch] = {}
        self._session_dispatches: dict[HeldSession, Dispatch] = {}
        self.promises = Promises(self._dispatches)
        self.refills = Refills(owner, store, self)
        # Fragments at which somebody waits for a session that may be free.
        self._awaited: dict[int, Fragment] = {}
        self._grants = SessionGrants(owner, store)

    # --- receivers ------------------------------------------------------------

    def join(self, fragment: Fragment, receiver: Receiver) -> None:
        dispatch = self._dispatch_of(fragment, receiver)
        if dispatch is None:
            dispatch = Dispatch(fragment, receiver.session, self._entropy)
            if receiver.session is None:
                self._dispatches[fragment.number] = dispatch
            else:
                self._session_dispatches[receiver.session] = dispatch
        dispatch.join(receiver)

    def _dispatch_of(self, fragment: Fragment, receiver: Receiver) -> Dispatch | None:
        if receiver.session is None:
            return self._dispatches.get(fragment.number)
        return self._session_dispatches.get(receiver.session)

    def leave(self, fragment: Fragment, receiver: Receiver) -> None:
        """The receiver is gone, and its session is free for others."""
        dispatch = self._dispatch_of(fragment, receiver)
        if dispatch is None:
            return
        dispatch.leave(receiver)
        if receiver.session is not None:
            del self._session_dispatches[receiver.session]
            session_lock.close(fragment, receiver.session, self._owner.changes)
            self._owner.wake()
        elif not dispatch.has_receivers() and not dispatch.has_promises():
            del self._dispatches[fragment.number]

    def wait_for_session(self, fragment: Fragment, waiter: SessionWaiter) -> None:
        """Grant a session as soon as one is free; the waiter is told."""
        fragment.the_sessions().waiters.append(waiter)
        self._awaited[fragment.number] = fragment
        self._timed.watch(fragment)
        self._owner.wake()

    def lose_sessions(self) -> None:
        """No lock is left: tell the holders, and let those who wait go on."""
        for dispatch in list(self._session_dispatches.values()):
            dispatch.lose_session()
        self._session_dispatches.clear()
        for fragment in self._owner.table.loaded():
            if fragment.sessions is not None and fragment.sessions.waiters:
                self._awaited[fragment.number] = fragment
                self._timed.watch(fragment)

    # --- serving --------------------------------------------------------------

    def offer_capacity(self, fragment: Fragment, receiver: Receiver) -> None:
        """The receiver can take messages; it may be served before this returns."""
        dispatch = self._dispatch_of(fragment, receiver)
        if dispatch is not None:
            dispatch.offer_capacity(receiver)
            self.serve(dispatch)

    def deliver(self, fragment: Fragment) -> None:
        """Serve the fragment's receivers from memory."""
        if fragment.sessions is not None:
            self._deliver_to_sessions(fragment)
            return
        dispatch = self._dispatches.get(fragment.number)
        if dispatch is not None:
            self.serve(dispatch)

    def _deliver_to_sessions(self, fragment: Fragment) -> None:
        sessions = fragment.the_sessions()
        for session in sessions.take_stirred():
            dispatch = self._session_dispatches.get(session)
            if dispatch is not None:
                self.serve(dispatch)
        if sessions.waiters and not fragment.is_dropped:
            self._awaited[fragment.number] = fragment
            self._owner.wake()

    def serve(self, dispatch: Dispatch) -> None:
        """Deliver what the window has to those who can take it."""
        owner = self._owner
        if not owner.has_lease():
            return
        dispatch.deliver(owner.clock.now(), owner.changes)
        self._timed.watch(dispatch.fragment)
        if dispatch.has_promises():
            self.promises.add(dispatch)
        if dispatch.wants_refill():
            self.refills.want(dispatch)
            owner.wake()
        else:
            dispatch.served()
            if not owner.changes.is_empty():
                owner.wake()

    def serve_everybody(self) -> None:
        """After a failed commit: receivers may have been told nothing."""
        for dispatch in list(self._dispatches.values()):
            dispatch.ask_everybody()
            self.serve(dispatch)

    def tell_everybody(self) -> None:
        """Nothing is delivered for a while: receivers that wait for an answer, to a
        drain for example, get it."""
        for dispatch in list(self._dispatches.values()):
            dispatch.served()

    async def grant_sessions(self) -> None:
        """To those who wait for one. Raises StoreError."""
        awaited, self._awaited = self._awaited, {}
        for fragment in awaited.values():
            await self._grants.serve(fragment)
