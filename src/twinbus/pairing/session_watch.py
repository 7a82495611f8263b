"""Makes sends of a session wait behind its backlog, where order is kept.

The shell around `session_order.SessionOrder`: it looks through backlog queues while
somebody waits, and no more often than the looking itself costs.
"""

import asyncio
from typing import TYPE_CHECKING, Final, Generic

from twinbus.pairing.deadline import Deadline
from twinbus.pairing.ports import Door, M
from twinbus.pairing.session_order import SessionKey, SessionOrder

if TYPE_CHECKING:
    from twinbus.pairing.pair import Pair

_PORTION: Final = 200
_PAUSE_SECONDS: Final = 0.1
_SHARE: Final = 4
"""A look may take one part in so many of the time."""


class SessionWatch(Generic[M]):
    """The sessions of one pair."""

    def __init__(self, pair: "Pair[M]") -> None:
        self._pair = pair
        self._order = SessionOrder(pair.rotation.queues)
        # Somebody looks; the others wait for what is found.
        self._look: asyncio.Task[None] | None = None

    def diverted(self, path: str, session_id: str, queue: str) -> None:
        self._order.diverted((path.lower(), session_id), queue)

    async def pick(self, path: str, session_id: str, deadline: Deadline) -> str:
        """The backlog queue of a session; waited for if it is out of rotation and has
        something of the session, or if nobody knows which one that is."""
        key = (path.lower(), session_id)
        while True:
            knows = self._order.knows(key)
            queue = self._usable(key) if knows else None
            if queue is not None:
                return queue
            if deadline.is_over():
                raise self._pair.no_backlog_queue_left()
            if knows:
                await asyncio.sleep(min(_PAUSE_SECONDS, deadline.left_ms() / 1000))
            else:
                await self._looked(deadline)

    def _usable(self, key: SessionKey) -> str | None:
        """The queue of a session; any other if that is out and the session is free."""
        rotation, now = self._pair.rotation, self._pair.clock.monotonic()
        queue = self._order.queue_of(key)
        if rotation.is_in(queue, now):
            return queue
        return None if self._order.is_behind(key) else rotation.pick(now)

    async def must_divert(
        self, path: str, messages: list[M], deadline: Deadline
    ) -> bool:
        """True if a session of these has a backlog that does not end in time; waits for
        the end a while, so that a session gets back on the straight way."""
        session_ids = {self._pair.dialect.session_id(message) for message in messages}
        keys = {(path.lower(), one) for one in session_ids if one is not None}
        wait_ms = min(self._pair.settings.session_wait_ms, deadline.left_ms() // 2)
        patience = Deadline(self._pair.clock, wait_ms)
        while any(self._order.is_behind(key) for key in keys):
            if patience.is_over():
                return True
            await self._looked(patience)
        return False

    async def _looked(self, patience: Deadline) -> None:
        """Wait for the end of a look through the queues."""
        if self._look is None:
            self._look = self._pair.start(self._look_through())
        try:
            async with asyncio.timeout(patience.left_ms() / 1000):
                await asyncio.shield(self._look)
        except TimeoutError:
            pass

    async def _look_through(self) -> None:
        clock = self._pair.clock
        began = clock.monotonic()
        try:
            for queue in self._order.to_look_through():
                if self._pair.rotation.is_in(queue, clock.monotonic()):
                    await self._look_at(queue)
                else:
                    # It has failed, and is left alone for a while.
                    self._order.could_not_look(queue)
            took = (clock.monotonic() - began) / 1000
            await asyncio.sleep(max(_PAUSE_SECONDS, took * _SHARE))
        finally:
            self._look = None

    async def _look_at(self, queue: str) -> None:
        door = self._pair.secondary.door(queue)
        began = self._order.begin_look()
        try:
            found = await self._sessions_in(door)
        except Exception as error:
            self._order.could_not_look(queue)
            self._pair.note_failed(queue, error, is_busy=False)
        else:
            self._order.looked(queue, began, found)
        finally:
            await door.close()

    async def _sessions_in(self, door: Door[M]) -> set[SessionKey]:
        limit = self._pair.settings.attempt_timeout_ms / 1000
        found: set[SessionKey] = set()
        next_number = 0
        while True:
            async with asyncio.timeout(limit):
                portion = await door.peek(next_number, _PORTION, limit)
            if not portion:
                return found
            for number, message in portion:
                detour = self._pair.dialect.detour(message)
                if detour is not None and detour.session_id is not None:
                    found.add((detour.path.lower(), detour.session_id))
                next_number = number + 1
