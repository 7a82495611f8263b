"""Simulated clients that accept a session: a named one, or the next with messages."""

import asyncio
from typing import TYPE_CHECKING, final

from simulator.links import SimulatedReceiver
from twinbus.broker.fragment import Fragment
from twinbus.broker.held_session import HeldSession
from twinbus.broker.sessions import SessionWaiter
from twinbus.entities.entity import Entity
from twinbus.errors import ServiceBusError, SessionCannotBeLocked

if TYPE_CHECKING:
    from simulator.life import Life


@final
class SimulatedAccept(SessionWaiter):
    """A client that waits for a session, for a limited time."""

    def __init__(
        self,
        life: "Life",
        queue: Entity,
        session_id: str | None,
        peek_lock: bool,
        number: int,
        patience: float,
    ) -> None:
        super().__init__(session_id)
        self._life = life
        self._queue = queue
        self._fragment: Fragment = queue.fragment()
        self._peek_lock = peek_lock
        self.number = number
        self.receiver: SimulatedReceiver | None = None
        self.is_over = False
        wanted = "the next session" if session_id is None else f"session {session_id}"
        life.tell(f"receiver {number} asks for {wanted} of {queue.path}")
        queue.receive_links().add(self)
        self._timer = asyncio.get_running_loop().call_later(patience, self.give_up)
        life.owner.wait_for_session(self._fragment, self)

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other

    def granted(self, session: HeldSession) -> None:
        life, name = self._life, session.session_id
        self._end()
        life.tell(f"receiver {self.number} gets session {name} of {self._queue.path}")
        life.auditor.sessions.granted(
            self._queue.path,
            name,
            self.number,
            session.locked_until,
            was_named=self.session_id is not None,
            takes=not self._peek_lock,
        )
        self.receiver = SimulatedReceiver(
            life, self._queue, False, self._peek_lock, self.number, session
        )
        life.receivers.append(self.receiver)

    def refused(self, error: ServiceBusError) -> None:
        self._end()
        self._life.tell(f"receiver {self.number}: {type(error).__name__}")
        if isinstance(error, SessionCannotBeLocked) and self.session_id is not None:
            self._life.auditor.sessions.refused(self._queue.path, self.session_id)

    def detach(self, error: ServiceBusError) -> None:
        """The queue was deleted."""
        self.give_up()

    def give_up(self) -> None:
        if not self.is_over:
            self._end()
            self._life.tell(f"receiver {self.number} waits no more")
            if self._fragment.sessions is not None:
                self._fragment.sessions.leave(self)

    def _end(self) -> None:
        self.is_over = True
        self._timer.cancel()
        self._queue.receive_links().discard(self)
