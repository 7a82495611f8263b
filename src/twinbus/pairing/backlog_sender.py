"""The detour: messages of one sender into the backlog queues of the secondary (P8).

The sender stays with one queue, chosen at random, until that queue fails. Then the
queue is out of rotation for all senders of the pair, and the rest of the messages goes
into another. If there is no other, the call waits and tries again while it has time.
Where order is kept, all messages of a session go into the same queue.
"""

import asyncio
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any, Generic

from twinbus.pairing.deadline import Deadline
from twinbus.pairing.events import EventKind, PairEvent
from twinbus.pairing.failures import FailureKind, Verdict
from twinbus.pairing.paired_entity import PairedEntity
from twinbus.pairing.pauses import Pauses
from twinbus.pairing.ports import Door, M

if TYPE_CHECKING:
    from twinbus.pairing.pair import Pair


class BacklogSender(Generic[M]):
    """The backlog of one sender."""

    def __init__(
        self,
        pair: "Pair[M]",
        entity: PairedEntity,
        link: Mapping[str, Any] | None = None,
    ) -> None:
        self._pair = pair
        self._entity = entity
        self._link = link
        # Where the last message went, and will go next.
        self._queue: str | None = None
        self._doors: dict[str, Door[M]] = {}
        # The queue that took a message last.
        self.last_queue: str = ""

    async def divert(
        self, messages: list[M], due_at: int | None, deadline: Deadline
    ) -> bool:
        """True when backlog queues have all messages; False if the primary is back
        before they have any. Raises if no queue can be used before the call's time
        ends, or if a queue refuses a message."""
        path, dialect = self._entity.path, self._pair.dialect
        turn = _Turn(self._entity, deadline)
        for session_id, run in _runs(messages, self._session_of):
            copies = [
                dialect.divert(message, path, due_at, session_id) for message in run
            ]
            while copies:
                queue = await self._pick(session_id, turn)
                if queue is None:
                    return False
                sent_count = await self._send_some(queue, copies, deadline)
                turn.has_sent |= sent_count > 0
                if sent_count and session_id is not None:
                    self._pair.the_sessions().diverted(path, session_id, queue)
                copies = copies[sent_count:]
        return True

    def _session_of(self, message: M) -> str | None:
        """The session whose order is to be kept, if any."""
        if self._pair.sessions is None:
            return None
        return self._pair.dialect.session_id(message)

    async def _pick(self, session_id: str | None, turn: "_Turn") -> str | None:
        """The queue to use; None if the primary is back and gets the messages."""
        pair = self._pair
        if session_id is not None:
            return await pair.the_sessions().pick(
                self._entity.path, session_id, turn.deadline, turn.pauses
            )
        queue = pair.rotation.pick(pair.clock.monotonic(), self._queue)
        while queue is None:
            await self._wait(turn)
            if turn.may_go_straight():
                return None
            now = pair.clock.monotonic()
            queue = pair.rotation.pick(now, self._queue) or pair.rotation.again(now)
        self._queue = queue
        return queue

    async def _wait(self, turn: "_Turn") -> None:
        """No queue can be used now: wait. Raises when the call's time ends."""
        if self._pair.settings.wait_during_failover:
            await turn.pauses.wait(turn.deadline)
            if not turn.deadline.is_over():
                return
        raise self._pair.no_backlog_queue_left()

    async def _send_some(self, queue: str, copies: list[M], deadline: Deadline) -> int:
        """How many messages the queue took, from the first on; 0 if it failed."""
        limit_ms = min(self._pair.settings.attempt_timeout_ms, deadline.left_ms())
        if limit_ms == 0:
            raise self._timed_out()
        door = self._door(queue)
        try:
            async with asyncio.timeout(limit_ms / 1000):
                sent_count = await door.send_some(copies, limit_ms / 1000)
        except Exception as error:
            if self._doors.get(queue) is not door:
                raise  # The sender was closed meanwhile.
            if isinstance(error, TimeoutError) and deadline.is_over():
                # The call had too little time; the queue may be healthy.
                raise self._timed_out() from error
            self._failed(queue, error)
            return 0
        self._pair.note_taken(queue)
        self.last_queue = queue
        self._entity.diverted_count += sent_count
        self._pair.report(
            PairEvent(
                kind=EventKind.DIVERTED,
                path=self._entity.path,
                queue=queue,
                count=sent_count,
            )
        )
        return sent_count

    def _timed_out(self) -> Exception:
        """For a call whose time ended while a queue was being tried."""
        pair = self._pair
        if pair.rotation.pick(pair.clock.monotonic(), self._queue) is None:
            # The queue had failed before, like all of them.
            return pair.no_backlog_queue_left()
        return pair.dialect.timed_out(
            f"The send to '{self._entity.path}' did not get into the backlog in its "
            f"time{pair.backlog_trouble()}"
        )

    def _door(self, queue: str) -> Door[M]:
        if queue not in self._doors:
            self._doors[queue] = self._pair.secondary.door(queue, self._link)
        return self._doors[queue]

    def _failed(self, queue: str, error: Exception) -> None:
        """Take the queue out of rotation. Raises if it was not the queue's fault."""
        pair = self._pair
        kind = FailureKind.TIMEOUT
        if not isinstance(error, TimeoutError):
            kind = pair.dialect.kind_of(error)
        if kind is FailureKind.TOO_LARGE:
            raise pair.dialect.refused(
                f"The message for '{self._entity.path}' does not fit into the backlog "
                f"queue '{queue}' with the properties that the detour adds, and the "
                "primary is away. Leave room of about 1 KB below the size limit, or "
                f"use a secondary that does: {error}"
            ) from error
        verdict = pair.settings.verdict(kind)
        if verdict is Verdict.RAISE:
            raise pair.dialect.as_raised(error)
        pair.note_failed(queue, error, is_busy=verdict is Verdict.WAIT)

    async def close(self) -> None:
        doors, self._doors = self._doors, {}
        for door in doors.values():
            await door.close()


class _Turn:
    """One call on its way through the backlog."""

    def __init__(self, entity: PairedEntity, deadline: Deadline) -> None:
        self.deadline = deadline
        self.pauses = Pauses()
        # A backlog queue has some of its messages already: the rest follows them.
        self.has_sent = False
        self._entity = entity
        self._was_diverted = entity.is_diverted()

    def may_go_straight(self) -> bool:
        is_back = self._was_diverted and not self._entity.is_diverted()
        return is_back and not self.has_sent


def _runs(
    messages: list[M], session_of: Callable[[M], str | None]
) -> list[tuple[str | None, list[M]]]:
    """Group adjacent messages of the same session."""
    return [
        (session_id, list(run)) for session_id, run in groupby(messages, session_of)
    ]
