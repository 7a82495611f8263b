"""Accept a session: a named one, or the next one with messages.

The returned receiver holds the session until it is closed or the lock ends.
"""

import asyncio
from typing import final

from twinbus.auth.claims import Claim
from twinbus.broker.held_session import HeldSession
from twinbus.broker.sessions import SessionWaiter
from twinbus.errors import OperationTimeout, ServiceBusError
from twinbus.operations.entity_handle import EntityHandle
from twinbus.operations.receiving import RequestReceiver


async def accept_session(
    handle: EntityHandle,
    session_id: str | None,
    wait_seconds: float,
    *,
    peek_lock: bool = True,
) -> RequestReceiver:
    """Raises SessionCannotBeLocked, OperationTimeout, NotAllowed, EntityDisabled."""
    handle.require(Claim.LISTEN)
    handle.check_may_receive()
    handle.check_has_sessions()
    waiter = _RequestWaiter(handle, session_id, peek_lock)
    try:
        async with asyncio.timeout(wait_seconds):
            await waiter.is_answered.wait()
    except TimeoutError:
        pass  # the answer may have come at the same instant
    except asyncio.CancelledError:
        waiter.give_back()
        raise
    finally:
        waiter.close()
    return waiter.outcome()


@final
class _RequestWaiter(SessionWaiter):
    """A request that waits for a session."""

    def __init__(
        self, handle: EntityHandle, session_id: str | None, peek_lock: bool
    ) -> None:
        super().__init__(session_id)
        self._entity = handle.entity
        self._fragment = handle.fragment
        self._actor = handle.actor
        self._peek_lock = peek_lock
        self.is_answered = asyncio.Event()
        self._receiver: RequestReceiver | None = None
        self._error: ServiceBusError | None = None
        self._entity.receive_links().add(self)
        self._fragment.home.wait_for_session(self._fragment, self)

    def granted(self, session: HeldSession) -> None:
        self._receiver = RequestReceiver(
            self._entity, self._fragment, self._actor, self._peek_lock, session
        )
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
        path = self._fragment.settings.path
        raise self._error or OperationTimeout.accepting(
            self.session_id, entity_path=path
        )

    def give_back(self) -> None:
        """Free the session: the caller is gone."""
        if self._receiver is not None:
            self._receiver.close()

    def close(self) -> None:
        """Stop waiting."""
        self._entity.receive_links().discard(self)
        if self._fragment.sessions is not None:
            self._fragment.sessions.leave(self)
