"""Makes sends of a session wait behind its backlog, where order is kept.

The shell around `session_order.SessionOrder`: it peeks through backlog queues while
sends wait, and limits the share of time that peeking takes.
"""

import asyncio
from typing import TYPE_CHECKING, Final, Generic

from twinbus.pairing.deadline import Deadline
from twinbus.pairing.pauses import Pauses
from twinbus.pairing.ports import Door, M
from twinbus.pairing.session_order import SessionKey, SessionOrder

if TYPE_CHECKING:
    from twinbus.pairing.pair import Pair

_PORTION: Final = 200
_PAUSE_MS: Final = 100
_SHARE: Final = 4
"""Peeking may take one part in so many of the time."""


class SessionWatch(Generic[M]):
    """The sessions of one pair."""

    def __init__(self, pair: "Pair[M]") -> None:
        self._pair = pair
        self._order = SessionOrder(pair.rotation.queues)
        # Somebody looks; the others wait for what is found.
        self._look: asyncio.Task[None] | None = None
        # When the next look may begin.
        self._rests_until = 0
        # Queues that have answered a look, or begun to: a backlog may be long.
        self._answering: set[str] = set()

    def diverted(self, path: str, session_id: str, queue: str) -> None:
        self._order.diverted((path.lower(), session_id), queue)

    async def pick(
        self, path: str, session_id: str, deadline: Deadline, pauses: Pauses
    ) -> str:
        """The backlog queue of a session. Waits while it is unknown which queue that
        is, and while that queue is out of rotation but has messages of the session."""
        key = (path.lower(), session_id)
        while True:
            knows = self._order.knows(key)
            queue = self._usable(key) if knows else None
            if queue is not None:
                return queue
            if deadline.is_over():
                raise self._pair.no_backlog_queue_left()
            if not knows:
                await self._looked(deadline)
                continue
            await pauses.wait(deadline)
            queue = self._again(key)
            if queue is not None and not deadline.is_over():
                return queue

    def _usable(self, key: SessionKey) -> str | None:
        """The queue of a session. If that is out of rotation and has no message of the
        session, any other."""
        rotation, now = self._pair.rotation, self._pair.clock.monotonic()
        queue = self._order.queue_of(key)
        if rotation.is_in(queue, now):
            return queue
        return None if self._order.is_behind(key) else rotation.pick(now)

    def _again(self, key: SessionKey) -> str | None:
        """A queue to try although it is out of rotation, because there is no other."""
        rotation, now = self._pair.rotation, self._pair.clock.monotonic()
        if not self._order.is_behind(key):
            return rotation.pick(now) or rotation.again(now)
        queue = self._order.queue_of(key)
        return queue if rotation.may_try(queue, now) else None

    async def must_divert(
        self, path: str, messages: list[M], deadline: Deadline
    ) -> bool:
        """Wait a while for the backlogs of these sessions to end, so that their sends
        go to the primary again. True if one of them did not end in time."""
        session_ids = {self._pair.dialect.session_id(message) for message in messages}
        keys = {(path.lower(), one) for one in session_ids if one is not None}
        wait_ms = min(self._pair.settings.session_wait_ms, deadline.left_ms() // 2)
        patience = Deadline(self._pair.clock, wait_ms)
        while any(self._order.is_behind(key) for key in keys):
            if patience.is_over():
                self._stop_waiting_for_the_silent()
                return any(self._order.is_behind(key) for key in keys)
            await self._looked(patience)
        return False

    def _stop_waiting_for_the_silent(self) -> None:
        """Let sends go on although these queues have not begun to answer."""
        for queue in self._order.unknown():
            if queue not in self._answering:
                self._order.could_not_look(queue)

    async def _looked(self, patience: Deadline) -> None:
        """Wait until the queues were peeked through once more."""
        if self._look is None:
            self._look = self._pair.start(self._rest_and_look())
        try:
            async with asyncio.timeout(patience.left_ms() / 1000):
                await asyncio.shield(self._look)
        except TimeoutError:
            pass

    async def _rest_and_look(self) -> None:
        clock = self._pair.clock
        try:
            await asyncio.sleep(max(self._rests_until - clock.monotonic(), 0) / 1000)
            began = clock.monotonic()
            # At once: one that hangs must not hide the others.
            queues = self._order.to_look_through()
            await asyncio.gather(*(self._look_at(queue) for queue in queues))
            took_ms = clock.monotonic() - began
            rest_ms = max(_PAUSE_MS, took_ms * _SHARE)
            self._rests_until = clock.monotonic() + rest_ms
        finally:
            self._look = None

    async def _look_at(self, queue: str) -> None:
        if not self._pair.rotation.is_in(queue, self._pair.clock.monotonic()):
            # It has failed, and is left alone for a while.
            self._order.could_not_look(queue)
            return
        door = self._pair.secondary.door(queue)
        began = self._order.begin_look()
        try:
            found = await self._sessions_in(queue, door)
        except Exception as error:
            self._order.could_not_look(queue)
            self._pair.note_failed(queue, error, is_busy=False)
        else:
            self._order.looked(queue, began, found)
        finally:
            await door.close()

    async def _sessions_in(self, queue: str, door: Door[M]) -> set[SessionKey]:
        limit = self._pair.settings.attempt_timeout_ms / 1000
        found: set[SessionKey] = set()
        next_number = 0
        while True:
            async with asyncio.timeout(limit):
                portion = await door.peek(next_number, _PORTION, limit)
            self._answering.add(queue)
            if not portion:
                return found
            for number, message in portion:
                detour = self._pair.dialect.detour(message)
                if detour is not None and detour.session_id is not None:
                    found.add((detour.path.lower(), detour.session_id))
                next_number = number + 1
