"""Receives messages, prints them, and then settles them.

A message is settled after it was printed, and the server has confirmed it before the
command ends: if the command is killed in between, the message is delivered again. With
`DELETE` the server removes messages before it sends them.

Only as many messages are asked for as are wanted, and the rest of the credit is taken
back at the end, so that no message is left locked or lost on its way.
"""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from twinbus.amqp.composite import encode_composite
from twinbus.amqp.errors import AmqpError
from twinbus.amqp.events import MessageReceived
from twinbus.amqp.outcomes import ACCEPTED, RELEASED, Modified, Rejected
from twinbus.amqp.types import Described, Symbol, UInt
from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure, complain
from twinbus.cli.messages.kept_session import SESSION_FILTER, KeptSession
from twinbus.cli.messages.message_json import DESCRIPTION, REASON, message_json
from twinbus.cli.messages.namespace_side import (
    NamespaceSide,
    condition_of,
    failure_of,
    told_as_failure,
)
from twinbus.client.errors import ClientError, ConnectionLost
from twinbus.client.receiver import ClientReceiver
from twinbus.errors import (
    OperationTimeout,
    ServiceBusError,
    SessionCannotBeLocked,
    SessionLockLost,
    from_condition,
)

COMPLETE: Final = "complete"
ABANDON: Final = "abandon"
DEFER: Final = "defer"
DEAD_LETTER: Final = "dead-letter"
DELETE: Final = "delete"
"""What becomes of a received message."""

SETTLEMENTS: Final = (COMPLETE, ABANDON, DEFER, DEAD_LETTER)

_TIMEOUT: Final = Symbol("com.microsoft:timeout")
_DEAD_LETTER: Final = "com.microsoft:dead-letter"

_AT_ONCE: Final = 500
"""Messages that are on their way or locked at the same time."""

_HELD: Final = 10_000
"""Messages that may be held until they are abandoned."""

_RETRY_SECONDS: Final = 2.0
_DRAIN_SECONDS: Final = 10.0

_FAILURES: Final = (ClientError, ServiceBusError, OSError, TimeoutError)

Sink = Callable[[Sequence[dict[str, Any]]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedMessages:
    """What a command receives, and what becomes of it."""

    entity: str
    # None: all that there are.
    count: int | None
    # How long to wait for the next one; None: for ever.
    wait_seconds: float | None
    # Goes on after a lost connection.
    is_following: bool = False
    settlement: str = COMPLETE
    reason: str | None = None
    description: str | None = None
    is_session: bool = False
    # None: the next session that is free.
    session_id: str | None = None
    has_raw: bool = False

    @property
    def is_each_session(self) -> bool:
        """One after the other. Abandoned messages would come again and again."""
        is_next = self.is_session and self.session_id is None
        return is_next and self.count is None and self.settlement != ABANDON

    def outcome(self) -> bytes:
        """The state that settles a message, encoded."""
        if self.settlement == ABANDON:
            return encode_composite(Modified(delivery_failed=True))
        if self.settlement == DEFER:
            return encode_composite(Modified(undeliverable_here=True))
        if self.settlement == DEAD_LETTER:
            texts = {REASON: self.reason, DESCRIPTION: self.description}
            info: dict[object, object] = {
                Symbol(name): text for name, text in texts.items() if text is not None
            }
            return encode_composite(Rejected(error=AmqpError(_DEAD_LETTER, "", info)))
        return ACCEPTED


async def receive_all(side: NamespaceSide, wanted: WantedMessages, sink: Sink) -> int:
    """Receive, print by `sink`, and settle. Returns how many. Raises Failure."""
    done, trouble = 0, ""
    while True:
        run = _Run(wanted, sink, done, trouble)
        try:
            await _receive(side, run)
        except asyncio.CancelledError:
            raise _interrupted(run) from None
        except _FAILURES as error:
            so_far = f"Received: {run.done_count}." if run.done_count else ""
            failure = failure_of(error, side, wanted.entity, so_far)
            if not wanted.is_following or not _may_pass(error):
                raise failure from None
            # One line for an outage, however long it is.
            if run.is_attached or str(failure) != trouble:
                complain(f"{failure} Trying again.")
            trouble = str(failure)
        else:
            trouble = "" if run.is_attached else trouble
            if not run.goes_on():
                return run.done_count
        done = run.done_count


def _may_pass(error: BaseException) -> bool:
    """Whether one who follows tries again."""
    if isinstance(error, OSError | ConnectionLost | TimeoutError):
        # Nobody makes another certificate meanwhile.
        return not isinstance(error, ssl.SSLError)
    condition = condition_of(error)
    if condition == SessionLockLost.condition:
        return True
    return bool(condition) and from_condition(condition, "").retryable


def _interrupted(run: "_Run") -> Failure:
    text = f"Interrupted. Received: {run.done_count}."
    if unsure := run.printed_count - run.done_count:
        text += f" The last {unsure} that were printed may come again."
    return Failure(text, exit_codes.INTERRUPTED)


class _Run:
    """One link, from its attach to its end."""

    def __init__(
        self, wanted: WantedMessages, sink: Sink, done_count: int, trouble: str
    ) -> None:
        self.wanted = wanted
        self._sink = sink
        # Why the one before it has failed; empty if it has not.
        self.trouble = trouble
        self.is_attached = False
        # Printed, and then also settled.
        self.printed_count = done_count
        self.done_count = done_count
        # Messages that are printed and abandoned at the end; before, they would come
        # again and again.
        self._held: list[int] = []

    @property
    def left_count(self) -> int | None:
        count = self.wanted.count
        return None if count is None else count - self.done_count

    async def take(
        self, receiver: ClientReceiver, batch: list[MessageReceived]
    ) -> None:
        """Print, then settle."""
        if not batch:
            return
        wanted = self.wanted
        self._sink([message_json(one.payload, has_raw=wanted.has_raw) for one in batch])
        self.printed_count += len(batch)
        if wanted.settlement == ABANDON:
            self._held += [one.delivery_id for one in batch]
        elif wanted.settlement != DELETE:
            await receiver.settle_confirmed(
                batch[0].delivery_id, batch[-1].delivery_id, wanted.outcome()
            )
        self.done_count += len(batch)

    async def give_back(self, receiver: ClientReceiver) -> None:
        if self._held and receiver.usable:
            outcome = self.wanted.outcome()
            await receiver.settle_confirmed(self._held[0], self._held[-1], outcome)

    def is_full(self) -> bool:
        return len(self._held) >= _HELD

    def goes_on(self) -> bool:
        """Whether another session is asked for when this one has no more messages."""
        if self.wanted.is_following:
            return True
        return self.is_attached and self.wanted.is_each_session


async def _receive(side: NamespaceSide, run: _Run) -> None:
    if run.trouble:
        await asyncio.sleep(_RETRY_SECONDS)
    receiver = await _attached(side, run.wanted)
    if receiver is None:
        return
    run.is_attached = True
    if run.trouble:
        complain(f"{side.text} answers again.")
    wanted = run.wanted
    session = KeptSession(side, wanted.entity, receiver) if wanted.is_session else None
    try:
        while run.left_count != 0 and not run.is_full():
            left = run.left_count
            credit = _AT_ONCE if left is None else min(left, _AT_ONCE)
            if receiver.credit * 2 < credit or left == credit:
                receiver.issue_credit(credit)
            if session is None:
                batch = await receiver.receive_batch(
                    _AT_ONCE, timeout_seconds=wanted.wait_seconds
                )
            else:
                batch = await session.next_batch(_AT_ONCE, wanted.wait_seconds)
            if not batch:
                break
            await run.take(receiver, batch)
    except BaseException:
        # Of a broken pipe, too: what was not printed is not settled.
        await _release(receiver)
        raise
    async with asyncio.timeout(_DRAIN_SECONDS):
        late = await receiver.drain()
        await run.take(receiver, late)
        await run.give_back(receiver)
        await receiver.close()


async def _release(receiver: ClientReceiver) -> None:
    """Let the server deliver again what has arrived and was not printed."""
    if not receiver.usable:
        return
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            late = await receiver.drain()
            if late and not late[0].settled:
                receiver.settle(late[0].delivery_id, late[-1].delivery_id, RELEASED)
            await receiver.close()
    except (ClientError, OSError, TimeoutError):
        # The locks end by themselves.
        return


async def _attached(
    side: NamespaceSide, wanted: WantedMessages
) -> ClientReceiver | None:
    """None if no session is free within the time."""
    connection = await side.connection(wanted.entity)
    properties: dict[object, object] = {}
    source_filter: dict[object, object] = {}
    patience = 30.0
    if wanted.is_session:
        described = Described(SESSION_FILTER, wanted.session_id)
        source_filter[SESSION_FILTER] = described
        wait = 60.0 if wanted.wait_seconds is None else wanted.wait_seconds
        properties[_TIMEOUT] = UInt(int(wait * 1000))
        patience += wait
    try:
        return await side.patiently(
            lambda: connection.receiver(
                wanted.entity,
                credit=0,
                settled=wanted.settlement == DELETE,
                source_filter=source_filter or None,
                properties=properties or None,
                timeout_seconds=patience,
            )
        )
    except ClientError as error:
        condition = condition_of(error)
        if wanted.is_session and condition == OperationTimeout.condition:
            return None
        is_held = condition == SessionCannotBeLocked.condition
        if wanted.is_session and is_held and not wanted.is_following:
            raise Failure(
                f"The session '{wanted.session_id}' of '{wanted.entity}' is held by "
                "another receiver.",
                exit_codes.FAILED,
            ) from None
        raise


async def receive_deferred(
    side: NamespaceSide, wanted: WantedMessages, numbers: Sequence[int], sink: Sink
) -> int:
    """Receive deferred messages by their sequence numbers. Raises Failure."""
    from twinbus.amqp.types import AmqpArray
    from twinbus.client.management import ask

    body: dict[object, object] = {
        "sequence-numbers": AmqpArray(0x81, list(numbers)),
        "receiver-settle-mode": UInt(0 if wanted.settlement == DELETE else 1),
    }
    with told_as_failure(side, wanted.entity):
        connection = await side.connection(wanted.entity)
        answer = await side.patiently(
            lambda: ask(connection, wanted.entity, "receive-by-sequence-number", body)
        )
        found = answer.get("messages")
        assert isinstance(found, list)
        sink(
            [
                message_json(bytes(one["message"]), has_raw=wanted.has_raw)
                for one in found
            ]
        )
        if wanted.settlement != DELETE:
            tokens = [one["lock-token"] for one in found]
            settle = _settling(wanted, tokens)
            await ask(connection, wanted.entity, "update-disposition", settle)
    return len(found)


def _settling(wanted: WantedMessages, tokens: list[object]) -> dict[object, object]:
    from twinbus.amqp.types import AmqpArray

    status = {
        COMPLETE: "completed",
        ABANDON: "abandoned",
        # As the protocol spells it.
        DEFER: "defered",
        DEAD_LETTER: "suspended",
    }
    body: dict[object, object] = {
        "lock-tokens": AmqpArray(0x98, tokens),
        "disposition-status": status[wanted.settlement],
    }
    if wanted.reason is not None:
        body["deadletter-reason"] = wanted.reason
    if wanted.description is not None:
        body["deadletter-description"] = wanted.description
    return body
