"""One backlog queue over `twinbus.client`: received ahead, settled in ranges.

While a batch is being restored, the next one is already on its way. Messages that
waited here for too long are given back, because their locks may end too soon.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

from twinbus.amqp.composite import encode_composite
from twinbus.amqp.errors import AmqpError
from twinbus.amqp.events import MessageReceived
from twinbus.amqp.outcomes import (
    ACCEPTED,
    RELEASED,
    Modified,
    encode_rejected,
)
from twinbus.amqp.types import AmqpArray, Int, UInt
from twinbus.client.errors import ClientError, NotAccepted
from twinbus.client.management import ask
from twinbus.client.namespace_connection import NamespaceConnection
from twinbus.client.receiver import ClientReceiver
from twinbus.clock import Clock
from twinbus.errors import MessageLockLost, MessageNotFound
from twinbus.pairing.detour import restored_from
from twinbus.pairing.own.failures import secondary_errors
from twinbus.pairing.own.messages import (
    OwnMessage,
    is_deferred,
    read_payload,
    received,
)
from twinbus.pairing.syphon.ports import BacklogPage, BacklogQueue, Fault, Glimpse

_log = logging.getLogger(__name__)

_HOLD_MS: Final = 20_000
"""How old a message may be before it is worked on: a lock has 60 seconds (P4), and
restoring and settling may take some of them."""

_PAGE_COUNT: Final = 250
_CLOSE_SECONDS: Final = 2.0
_ASK_SECONDS: Final = 5.0
"""How long the end of a poll may take."""

_DESCRIPTION_CHARACTERS: Final = 1_024

_LONG: Final = 0x81
_UUID: Final = 0x98

_DEFERRED: Final = encode_composite(
    Modified(delivery_failed=True, undeliverable_here=True)
)


class OwnSource:
    """`Source` for two twinbus namespaces."""

    def __init__(
        self,
        connection: NamespaceConnection,
        queue: BacklogQueue,
        namespace_name: str,
        clock: Clock,
    ) -> None:
        self.path = queue.path
        self._connection = connection
        self._queue = queue
        self._ledger_name = f"{namespace_name}/{queue.path}"
        self._clock = clock
        self._receiver: ClientReceiver | None = None
        # Since when messages may wait here, received ahead.
        self._waiting_since = 0
        # Messages have come on this link since a poll ended without any.
        self._has_received = False

    # --- receiving ------------------------------------------------------------

    async def receive(
        self, max_count: int, max_wait_seconds: float
    ) -> list[OwnMessage]:
        async with secondary_errors():
            receiver = await self._attached()
            await self._give_back_old(receiver)
            self._grant(receiver, max_count)
            deliveries = await receiver.receive_batch(
                max_count, timeout_seconds=max_wait_seconds
            )
            if not deliveries and max_wait_seconds > 0:
                await self._end_poll(receiver)
                deliveries = await receiver.receive_batch(max_count, timeout_seconds=0)
            self._has_received = self._has_received or bool(deliveries)
            self._grant(receiver, max_count)
        self._waiting_since = self._clock.monotonic()
        return [self._known(received(delivery)) for delivery in deliveries]

    async def _attached(self) -> ClientReceiver:
        if self._receiver is not None and self._receiver.is_entity_gone:
            # A queue that was made since then has numbers of its own: under this one's
            # name the primary would take its first messages for old ones.
            self._receiver.check()
        if self._receiver is None or not self._receiver.usable:
            connection = await self._connection.get(self.path)
            self._receiver = await connection.receiver(self.path, credit=0)
            self._has_received = False
            self._waiting_since = self._clock.monotonic()
        return self._receiver

    def _grant(self, receiver: ClientReceiver, count: int) -> None:
        """Credit for one batch here and another on its way; topped up rarely, because
        each flow costs a frame."""
        wanted = 2 * count - receiver.waiting_count
        if receiver.credit * 2 < wanted:
            receiver.issue_credit(wanted)

    async def _end_poll(self, receiver: ClientReceiver) -> None:
        """Ask for what is there now, as every client does whose time is over: the bus
        counts it as a receive that came back empty (P13). It does so if it has sent
        nothing since it was last asked; so after messages it is asked twice.

        A queue of which a part does not answer is received from all the same."""
        try:
            async with asyncio.timeout(_ASK_SECONDS):
                await receiver.take_back_credit()
                if self._has_received and not receiver.waiting_count:
                    self._has_received = False
                    await receiver.take_back_credit(1)
        except TimeoutError:
            _log.info("%s: a poll was not answered in time", self.path)

    async def _give_back_old(self, receiver: ClientReceiver) -> None:
        age_ms = self._clock.monotonic() - self._waiting_since
        if receiver.waiting_count and age_ms > _HOLD_MS:
            old = await receiver.receive_batch(receiver.waiting_count)
            _settle_all(receiver, old)

    def _known(self, message: OwnMessage) -> OwnMessage:
        message.restored_from = restored_from(
            message.sequence_number, self._queue.created_at, self._ledger_name
        )
        return message

    # --- settling -------------------------------------------------------------

    async def complete(self, messages: Sequence[OwnMessage]) -> None:
        await self._settle(messages, ACCEPTED, "completed")

    async def abandon(self, messages: Sequence[OwnMessage]) -> None:
        await self._settle(messages, RELEASED, "unlocked")

    async def defer(self, messages: Sequence[OwnMessage]) -> None:
        await self._settle(messages, _DEFERRED, "defered")

    async def dead_letter(self, messages: Sequence[OwnMessage], fault: Fault) -> None:
        description = fault.description[:_DESCRIPTION_CHARACTERS]
        error = AmqpError(
            "com.microsoft:dead-letter",
            info={
                "DeadLetterReason": fault.reason,
                "DeadLetterErrorDescription": description,
            },
        )
        texts: dict[object, object] = {
            "deadletter-reason": fault.reason,
            "deadletter-description": description,
        }
        await self._settle(messages, encode_rejected(error), "suspended", texts)

    async def _settle(
        self,
        messages: Sequence[OwnMessage],
        outcome: bytes,
        status: str,
        texts: dict[object, object] | None = None,
    ) -> None:
        by_link = [message for message in messages if message.lock_token is None]
        by_token = [message for message in messages if message.lock_token is not None]
        async with secondary_errors():
            if by_link:
                await self._settle_on_link(by_link, outcome)
            if by_token:
                await self._settle_by_token(by_token, status, texts or {})

    async def _settle_on_link(
        self, messages: Sequence[OwnMessage], outcome: bytes
    ) -> None:
        receiver = self._receiver
        if receiver is None:
            return
        results = await asyncio.gather(
            *(
                receiver.settle_confirmed(first, last, outcome)
                for first, last in _ranges(messages)
            ),
            return_exceptions=True,
        )
        for result in results:
            if isinstance(result, NotAccepted):
                # Somebody else has, or will have, the message.
                _log.info("%s: a lock was lost: %s", self.path, result)
            elif isinstance(result, BaseException):
                raise result

    async def _settle_by_token(
        self, messages: Sequence[OwnMessage], status: str, texts: dict[object, object]
    ) -> None:
        tokens: list[object] = [message.lock_token for message in messages]
        body: dict[object, object] = {
            "lock-tokens": AmqpArray(_UUID, tokens),
            "disposition-status": status,
            **texts,
        }
        try:
            await ask(
                await self._connection.get(self.path),
                self.path,
                "update-disposition",
                body,
            )
        except MessageLockLost as error:
            if len(messages) == 1:
                _log.info("%s: a lock was lost: %s", self.path, error)
                return
            for message in messages:
                await self._settle_by_token([message], status, texts)

    # --- deferred messages ----------------------------------------------------

    async def peek_deferred(self, first_number: int) -> BacklogPage:
        body: dict[object, object] = {
            "from-sequence-number": first_number,
            "message-count": Int(_PAGE_COUNT),
        }
        async with secondary_errors():
            connection = await self._connection.get(self.path)
            answer = await ask(connection, self.path, "peek-message", body)
        seen = [payload for payload, _ in _entries(answer)]
        if not seen:
            return BacklogPage((), 0, None)
        deferred = [read_payload(payload) for payload in seen if is_deferred(payload)]
        glimpses = tuple(
            Glimpse(message.sequence_number, _path_of(message)) for message in deferred
        )
        first = next((one for one in seen if not is_deferred(one)), None)
        return BacklogPage(
            glimpses,
            len(seen),
            next_number=read_payload(seen[-1]).sequence_number + 1,
            first_active=None if first is None else read_payload(first).sequence_number,
        )

    async def take_deferred(self, numbers: Sequence[int]) -> list[OwnMessage]:
        async with secondary_errors():
            return await self._take(list(numbers))

    async def _take(self, numbers: list[int]) -> list[OwnMessage]:
        """The bus gives all of them or none. If one is gone, ask for each half."""
        body: dict[object, object] = {
            "sequence-numbers": AmqpArray(_LONG, list(numbers)),
            "receiver-settle-mode": UInt(1),
        }
        connection = await self._connection.get(self.path)
        try:
            answer = await ask(
                connection, self.path, "receive-by-sequence-number", body
            )
        except MessageNotFound:
            if len(numbers) == 1:
                return []
            half = len(numbers) // 2
            return [
                *await self._take(numbers[:half]),
                *await self._take(numbers[half:]),
            ]
        taken = []
        for payload, token in _entries(answer):
            message = self._known(read_payload(payload))
            message.lock_token = token
            message.is_deferred = True
            taken.append(message)
        return taken

    async def close(self) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is None or not receiver.usable:
            return
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                # Nothing more comes once the credit is back.
                _settle_all(receiver, await receiver.drain())
                await receiver.close()
        except (ClientError, TimeoutError) as error:
            _log.debug("%s was not left in order: %s", self.path, error)


def _settle_all(
    receiver: ClientReceiver, deliveries: Sequence[MessageReceived]
) -> None:
    """Release messages that were received ahead and not used."""
    for delivery in deliveries:
        receiver.settle(delivery.delivery_id, delivery.delivery_id, RELEASED)


def _ranges(messages: Sequence[OwnMessage]) -> Iterator[tuple[int, int]]:
    """Ranges of consecutive delivery ids: first and last."""
    ids = sorted(message.delivery_id for message in messages)
    first = last = ids[0]
    for delivery_id in ids[1:]:
        if delivery_id != last + 1:
            yield first, last
            first = delivery_id
        last = delivery_id
    yield first, last


def _entries(answer: dict[object, object]) -> Iterator[tuple[bytes, UUID | None]]:
    """The messages of an answer, each with its lock token, if it has one."""
    entries = answer.get("messages")
    for entry in entries if isinstance(entries, list) else []:
        payload, token = entry.get("message"), entry.get("lock-token")
        yield payload, token


def _path_of(message: OwnMessage) -> str:
    return "" if message.detour is None else message.detour.path
