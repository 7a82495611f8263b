"""A sender whose sends survive the loss of the primary.

Theory of operation. While the entity is not failed over, a call sends to the primary.
If an attempt fails in a way that counts, the call waits a little and tries again, until
it succeeds, the entity fails over, or the call's own time ends. After the failover it
sends to the backlog (`backlog_sender.py`). The ids by which a ledger knows a message
are written before the first attempt, and are the same in all attempts.

A sender makes one call at a time, so its messages keep their order across a failover.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic

from twinbus.pairing.backlog_sender import BacklogSender
from twinbus.pairing.cancelling import cancel_diverted
from twinbus.pairing.deadline import Deadline
from twinbus.pairing.entity_health import State
from twinbus.pairing.failures import (
    ASKS_FOR_PATIENCE,
    WITHOUT_ANSWER,
    FailureKind,
    Verdict,
)
from twinbus.pairing.pauses import Pauses
from twinbus.pairing.ports import Door, M
from twinbus.pairing.send_ids import number_of
from twinbus.pairing.send_log import ACCEPTED, FAILED, UNKNOWN, SendLog, SentCall

if TYPE_CHECKING:
    from twinbus.pairing.pair import Pair


@dataclass(slots=True, kw_only=True)
class Call(Generic[M]):
    """One call of the application, with all that an attempt needs."""

    messages: list[M]
    deadline: Deadline
    # Sends to the primary: called with a door and the attempt's time-out in seconds.
    straight: Callable[[Door[M], float], Awaitable[list[int]]]
    # When the messages are due, if they are scheduled by this call.
    due_at: int | None = None
    pauses: Pauses = field(default_factory=Pauses)
    # The messages are sent without the pair's ids: with them they would be too large.
    is_bare: bool = False
    # An attempt was made: the primary may have the messages, whatever it answered.
    was_tried: bool = False
    # Backlog queues have the messages, and this one the last of them.
    diverted_to: str | None = None


class PairedSender(Generic[M]):
    """Sends to one entity of the primary, or to its backlog."""

    def __init__(
        self, pair: "Pair[M]", path: str, link: Mapping[str, Any] | None = None
    ) -> None:
        """`link` has the application's options for links to both namespaces."""
        self._pair = pair
        self._path = path
        self._entity = pair.entity(path)
        self._door = pair.primary.door(path, link)
        self._backlog = BacklogSender(pair, self._entity, link)
        self._mutex = asyncio.Lock()
        self._is_closed = False

    # --- what an application calls ------------------------------------------------

    async def send(
        self, messages: Sequence[M], timeout_seconds: float | None = None
    ) -> None:
        """Returns when the primary or a backlog queue has the messages.

        Raises the dialect's error for a time-out, for a refusal, and for a failure that
        the backlog does not help with.
        """

        async def straight(door: Door[M], limit: float) -> list[int]:
            await door.send(call.messages, limit)
            return []

        call = self._call(messages, timeout_seconds, straight)
        self._stamp(call, self._pair.send_ids.next)
        await self._deliver_in_turn(call)

    async def schedule(
        self, messages: Sequence[M], due_at: int, timeout_seconds: float | None = None
    ) -> list[int]:
        """Returns sequence numbers; negative ones for messages that were diverted."""

        async def straight(door: Door[M], limit: float) -> list[int]:
            numbers = await door.schedule(call.messages, due_at, limit)
            # No number: the primary had the message from an attempt without an answer.
            own_numbers = self._own_numbers(call)
            return [
                number or own for number, own in zip(numbers, own_numbers, strict=True)
            ]

        call = self._call(messages, timeout_seconds, straight)
        call.due_at = due_at
        self._stamp(call, self._pair.send_ids.next_scheduled)
        return await self._deliver_in_turn(call) or self._own_numbers(call)

    async def cancel(
        self, numbers: Sequence[int], timeout_seconds: float | None = None
    ) -> None:
        """Cancel messages by the numbers of `schedule`, wherever the messages wait."""
        self._check_open()
        deadline = self._deadline(timeout_seconds)
        on_primary = [number for number in numbers if number >= 0]
        diverted = [number for number in numbers if number < 0]
        try:
            if diverted:
                await cancel_diverted(self._pair, self._path, diverted, deadline)
            if on_primary:
                # Waiting for another call of this sender may take all of the time.
                async with asyncio.timeout(deadline.left_ms() / 1000), self._mutex:
                    await self._door.cancel(on_primary, deadline.left_ms() / 1000)
        except TimeoutError as error:
            raise self._pair.dialect.timed_out(
                f"Cancelling messages of '{self._path}' did not end in its time. Some "
                "of them may be cancelled."
            ) from error

    async def close(self) -> None:
        self._is_closed = True
        await self._door.close()
        await self._backlog.close()

    # --- one call -----------------------------------------------------------------

    def _call(
        self,
        messages: Sequence[M],
        timeout_seconds: float | None,
        straight: Callable[[Door[M], float], Awaitable[list[int]]],
    ) -> Call[M]:
        self._check_open()
        return Call(
            messages=list(messages),
            deadline=self._deadline(timeout_seconds),
            straight=straight,
        )

    def _check_open(self) -> None:
        self._pair.check_open()
        if self._is_closed:
            raise self._pair.dialect.refused(
                f"The sender of '{self._path}' was closed. Get another from the client."
            )

    def _deadline(self, timeout_seconds: float | None) -> Deadline:
        settings = self._pair.settings
        # Without a time-out of its own, a call has time enough for a failover.
        timeout_ms = settings.send_timeout_ms + settings.failover_interval_ms
        if timeout_seconds is not None:
            timeout_ms = max(round(timeout_seconds * 1000), 1)
        return Deadline(self._pair.clock, timeout_ms)

    def _stamp(self, call: Call[M], next_id: Callable[[], bytes]) -> None:
        for message in call.messages:
            send_id = next_id()
            message_id = (
                send_id.hex() if self._pair.settings.assign_message_ids else None
            )
            self._pair.dialect.stamp(message, send_id, message_id)

    def _own_numbers(self, call: Call[M]) -> list[int]:
        send_ids = (self._pair.dialect.send_id(message) for message in call.messages)
        return [
            number_of(send_id, was_tried=call.was_tried) if send_id else 0
            for send_id in send_ids
        ]

    async def _deliver_in_turn(self, call: Call[M]) -> list[int]:
        if not call.messages:
            return []
        try:
            async with asyncio.timeout(call.deadline.left_ms() / 1000):
                await self._mutex.acquire()
        except TimeoutError:
            raise self._timed_out(
                "another call of this sender took all of it"
            ) from None
        try:
            if self._pair.send_log is None:
                return await self._deliver(call)
            return await self._deliver_and_log(call, self._pair.send_log)
        finally:
            self._mutex.release()

    async def _deliver_and_log(self, call: Call[M], log: SendLog) -> list[int]:
        began_at, began = self._pair.clock.now(), self._pair.clock.monotonic()
        result, reason = ACCEPTED, None
        try:
            return await self._deliver(call)
        except BaseException as error:
            result, reason = self._outcome(call, error)
            raise
        finally:
            dialect, messages = self._pair.dialect, call.messages
            operation = "send" if call.due_at is None else "schedule"
            log.note(
                SentCall(
                    operation="divert" if call.diverted_to else operation,
                    result=result,
                    path=self._path,
                    began_at=began_at,
                    took_ms=self._pair.clock.monotonic() - began,
                    send_ids=[dialect.send_id(one) for one in messages],
                    message_ids=[dialect.message_id(one) for one in messages],
                    session_ids=[dialect.session_id(one) for one in messages],
                    reason=reason,
                    destination=call.diverted_to,
                )
            )

    def _outcome(self, call: Call[M], error: BaseException) -> tuple[str, str]:
        """A message whose answer never came may be there all the same."""
        if not isinstance(error, Exception):
            return UNKNOWN if call.was_tried else FAILED, "cancelled"
        is_doubtful = self._kind_of(error) in WITHOUT_ANSWER
        is_unknown = call.was_tried and is_doubtful
        return UNKNOWN if is_unknown else FAILED, self._reason_of(error)

    async def _deliver(self, call: Call[M]) -> list[int]:
        """The numbers that the primary gave, if the primary has the messages."""
        while True:
            self._check_open()
            if await self._must_divert(call):
                if await self._backlog.divert(
                    call.messages, call.due_at, call.deadline
                ):
                    call.diverted_to = self._backlog.last_queue
                    return []
                continue
            if call.deadline.is_over():
                raise self._timed_out(
                    self._entity.last_failure or "no attempt was made"
                )
            try:
                return await self._attempt(call)
            except Exception as error:
                await self._consider(call, error)

    async def _must_divert(self, call: Call[M]) -> bool:
        if self._entity.is_diverted():
            return True
        sessions = self._pair.sessions
        if sessions is None:
            return False
        return await sessions.must_divert(self._path, call.messages, call.deadline)

    async def _attempt(self, call: Call[M]) -> list[int]:
        """One attempt at the primary; ends at the latest with a failover."""
        limit_ms = min(self._pair.settings.attempt_timeout_ms, call.deadline.left_ms())
        until_failover_ms = self._entity.until_failover_ms()
        if until_failover_ms is not None:
            limit_ms = max(min(limit_ms, until_failover_ms), 1)
        limit = limit_ms / 1000
        async with asyncio.timeout(limit):
            if call.due_at is not None:
                # A primary that cannot be reached has no message to cancel.
                await self._door.open(limit)
            call.was_tried = True
            numbers = await call.straight(self._door, limit)
        self._entity.send_succeeded()
        return numbers

    async def _consider(self, call: Call[M], error: Exception) -> None:
        """Return if the call goes on; raise the error if the caller has to know it."""
        # The sender was closed meanwhile: the entity may be healthy.
        self._check_open()
        kind = self._kind_of(error)
        if kind is FailureKind.TOO_LARGE and not call.is_bare:
            self._unstamp(call)
            return
        verdict = self._pair.settings.verdict(kind)
        if verdict is Verdict.RAISE:
            raise self._pair.dialect.as_raised(error)
        if verdict is Verdict.WAIT:
            await self._wait_while_busy(call, error)
            return
        self._entity.send_failed(self._reason_of(error))
        if self._entity.state is State.FAILED_OVER:
            return
        if not self._pair.settings.wait_during_failover:
            raise self._pair.dialect.as_raised(error)
        pause_ms = call.pauses.next_ms()
        if kind in ASKS_FOR_PATIENCE:
            pause_ms = max(pause_ms, self._pair.settings.busy_wait_ms)
        await self._entity.changed(min(pause_ms, call.deadline.left_ms()))

    def _unstamp(self, call: Call[M]) -> None:
        """Send without the pair's ids if the message is too large with them. A primary
        that does not know the ids has no head-room for them and does not use them: a
        message that fits without a pair has to fit with one (P5)."""
        call.is_bare = True
        for message in call.messages:
            self._pair.dialect.unstamp(message)

    def _kind_of(self, error: Exception) -> FailureKind:
        if isinstance(error, TimeoutError):
            return FailureKind.TIMEOUT
        return self._pair.dialect.kind_of(error)

    def _reason_of(self, error: Exception) -> str:
        if isinstance(error, TimeoutError):
            return "no answer in time"
        return self._pair.dialect.reason_of(error)

    async def _wait_while_busy(self, call: Call[M], error: Exception) -> None:
        """Wait as a busy server asks (A2). Raises if the call has not enough time."""
        wait_ms = self._pair.settings.busy_wait_ms
        if call.deadline.left_ms() <= wait_ms:
            raise error
        await asyncio.sleep(wait_ms / 1000)

    def _timed_out(self, why: str) -> Exception:
        return self._pair.dialect.timed_out(
            f"The send to '{self._path}' did not get through in its time: {why}"
        )
