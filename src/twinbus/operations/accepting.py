"""Accept a session: a named one, or the next one with messages.

The returned receiver holds the session until it is closed or the lock ends. A named
session is in one fragment. Whoever wants the next one waits at all fragments. The first
grant ends the waiting at the others at once, so there is never a second one.
"""

import asyncio
from typing import final

from twinbus.auth.claims import Claim
from twinbus.broker.held_session import HeldSession
from twinbus.broker.sessions import SessionWaiter
from twinbus.errors import OperationTimeout, ServiceBusError
from twinbus.operations.entity_handle import EntityHandle
from twinbus.operations.fragment_handle import FragmentHandle
from twinbus.operations.receiving import RequestReceiver


async def accept_session(
    handle: EntityHandle,
    session_id: str | None,
    wait_seconds: float,
    *,
    peek_lock: bool = True,
) -> RequestReceiver:
    """Raises SessionCannotBeLocked, OperationTimeout, NotAllowed, EntityDisabled,
    FragmentUnavailable."""
    handle.require(Claim.LISTEN)
    handle.check_may_receive()
    handle.check_has_sessions()
    accepting = _Accepting(handle, session_id, peek_lock)
    try:
        async with asyncio.timeout(wait_seconds):
            await accepting.is_answered.wait()
    except TimeoutError:
        pass  # the answer may have come at the same instant
    except asyncio.CancelledError:
        accepting.give_back()
        raise
    finally:
        accepting.close()
    return accepting.outcome()


@final
class _Accepting:
    """A request that waits for a session."""

    def __init__(
        self, handle: EntityHandle, session_id: str | None, peek_lock: bool
    ) -> None:
        self._entity = handle.entity
        self._path = handle.path
        self._session_id = session_id
        self._peek_lock = peek_lock
        self.is_answered = asyncio.Event()
        self._receiver: RequestReceiver | None = None
        self._error: ServiceBusError | None = None
        if session_id is None:
            parts = handle.known_parts()
        else:
            parts = [handle.part_of_session(session_id)]
        self._waiters = [_FragmentWaiter(self, part, session_id) for part in parts]
        self._entity.receive_links().add(self)
        for waiter in self._waiters:
            waiter.wait()

    def granted(self, part: FragmentHandle, session: HeldSession) -> None:
        for waiter in self._waiters:
            waiter.leave()
        self._receiver = RequestReceiver(self._entity, [part], self._peek_lock, session)
        self.is_answered.set()

    def refused(self, error: ServiceBusError) -> None:
        self._error = error
        self.is_answered.set()

    def detach(self, error: ServiceBusError) -> None:
        """The entity was deleted or disabled."""
        self.refused(error)

    def outcome(self) -> RequestReceiver:
        """The receiver of the session. Raises the error if none was granted."""
        if self._receiver is not None:
            return self._receiver
        raise self._error or OperationTimeout.accepting(
            self._session_id, entity_path=self._path
        )

    def give_back(self) -> None:
        """Free the session: the caller is gone."""
        if self._receiver is not None:
            self._receiver.close()

    def close(self) -> None:
        """Stop waiting."""
        self._entity.receive_links().discard(self)
        for waiter in self._waiters:
            waiter.leave()


@final
class _FragmentWaiter(SessionWaiter):
    """Waits at one fragment for a request."""

    def __init__(
        self, accepting: _Accepting, part: FragmentHandle, session_id: str | None
    ) -> None:
        super().__init__(session_id)
        self._accepting = accepting
        self._part = part

    def wait(self) -> None:
        fragment = self._part.fragment
        fragment.home.wait_for_session(fragment, self)

    def leave(self) -> None:
        sessions = self._part.fragment.sessions
        if sessions is not None:
            sessions.leave(self)

    def granted(self, session: HeldSession) -> None:
        self._accepting.granted(self._part, session)

    def refused(self, error: ServiceBusError) -> None:
        self._accepting.refused(error)
