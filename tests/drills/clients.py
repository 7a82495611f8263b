"""Clients of the vendor's SDK at work: each sends to one entity, and receives from it.

They are programmed as an application would be: whatever fails is tried again, with
another attempt of the same message. Without duplicate detection the SDK is told not to
try again by itself, so that every attempt is a call that can be counted.
"""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from datetime import UTC
from typing import Any

from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
)
from azure.servicebus.aio import (
    ServiceBusClient,
    ServiceBusReceiver,
    ServiceBusSender,
)
from azure.servicebus.exceptions import OperationTimeoutError, ServiceBusError

from .books import ReceivedBook, Seen, SentBook
from .ending import end_tasks
from .entities import LOCK_SECONDS, DrilledEntity

PROBE = "probe"
"""Names that begin so are those of probes, and in no book."""

_PACE_SECONDS = 0.04
_BACKLOG = 60
"""With more that is not settled it waits: receivers are what is slow."""

_PAUSE_SECONDS = 0.1
_WAIT_SECONDS = 1
_SESSION_COUNT = 4
_AT_ONCE = 20

_CALL_SECONDS = 30.0
"""A call that takes longer hangs; it is given up, and counted."""

_TROUBLE = (ServiceBusError, OSError, ValueError)


class SdkClient:
    """One `ServiceBusClient`, its sender and its receivers."""

    def __init__(self, entity: DrilledEntity, connection_string: str) -> None:
        self.entity = entity
        self._connection_string = connection_string
        self.sent = SentBook(finds_duplicates=entity.finds_duplicates)
        self.received = [ReceivedBook(path) for path in entity.sources()]
        # Which round of the drill it is.
        self.round_number = 0
        # Errors that the client was shown, by name; and calls that hung.
        self.troubles: dict[str, int] = {}
        self.hung_count = 0
        # When a call that was begun after `asked_since` first succeeded, in seconds of
        # the monotonic clock; by "send" and the paths of sources.
        self.asked_since = 0.0
        self.answered_at: dict[str, float] = {}
        self._numbers = itertools.count()
        # Names to be sent again, with the number of the last attempt.
        self._again: list[tuple[str, int]] = []
        self._is_sending = True
        self._has_stopped = False

    # --- life -----------------------------------------------------------------

    async def run(self) -> None:
        """Until it is cancelled."""
        tasks = [asyncio.create_task(self._keep_on(self._send))]
        for book in self.received:
            receive = self._receive_sessions if self.entity.has_sessions else self._take
            tasks.append(asyncio.create_task(self._keep_on(receive, book)))
        try:
            await asyncio.gather(*tasks)
        finally:
            await end_tasks(tasks)

    async def stop_sending(self) -> None:
        """When this returns nothing is being sent; receivers go on."""
        self._is_sending = False
        async with asyncio.timeout(3 * _CALL_SECONDS):
            while not self._has_stopped:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(_PAUSE_SECONDS)

    def unsettled_count(self) -> int:
        """Copies that were acknowledged, and not seen to be settled."""
        seen = [
            sum(copy.settled_at > 0 for copy in book.copies.values())
            for book in self.received
        ]
        wanted = {key for key, one in self.sent.attempts.items() if one.is_acknowledged}
        names = len({name for name, _ in wanted})
        expected = names if self.entity.finds_duplicates else len(wanted)
        return max(expected - min(seen), 0)

    async def _keep_on(
        self, work: Callable[..., Awaitable[None]], *arguments: ReceivedBook
    ) -> None:
        """A client that is made again whenever it was shown an error."""
        while True:
            try:
                async with self._client() as client:
                    await work(client, *arguments)
                if not self._is_sending and not arguments:
                    self._has_stopped = True
                    return
            except TimeoutError:
                self.hung_count += 1
            except _TROUBLE as error:
                name = type(error).__name__
                self.troubles[name] = self.troubles.get(name, 0) + 1
            await asyncio.sleep(_PAUSE_SECONDS)

    def _client(self) -> ServiceBusClient:
        tries = 3 if self.entity.finds_duplicates else 0
        return ServiceBusClient.from_connection_string(
            self._connection_string, retry_total=tries, retry_backoff_factor=0.1
        )

    def _answered(self, what: str, begun_at: float) -> None:
        if begun_at > self.asked_since:
            self.answered_at.setdefault(what, time.monotonic())

    # --- sending --------------------------------------------------------------

    def _sender(self, client: ServiceBusClient) -> ServiceBusSender:
        if self.entity.subscriptions:
            return client.get_topic_sender(self.entity.path)
        return client.get_queue_sender(self.entity.path)

    async def _send(self, client: ServiceBusClient) -> None:
        async with self._sender(client) as sender:
            while self._is_sending or self._again:
                if self.unsettled_count() < _BACKLOG:
                    await self._send_next(sender)
                await asyncio.sleep(_PACE_SECONDS)

    async def _send_next(self, sender: ServiceBusSender) -> None:
        """One message, or now and then a batch. What is not acknowledged is sent again
        later."""
        attempts = self._next_attempts()
        for name, attempt in attempts:
            self.sent.sending(name, attempt, self.round_number)
        self._again += attempts
        messages = [self._message(name, attempt) for name, attempt in attempts]
        begun_at = time.monotonic()
        async with asyncio.timeout(_CALL_SECONDS):
            await sender.send_messages(messages if len(messages) > 1 else messages[0])
        for name, attempt in attempts:
            self.sent.acknowledged(name, attempt)
            self._again.remove((name, attempt))
        self._answered("send", begun_at)

    def _next_attempts(self) -> list[tuple[str, int]]:
        if self._again:
            name, attempt = self._again.pop(0)
            return [(name, attempt + 1)]
        number = next(self._numbers)
        # A batch must not have several keys, and sessions and duplicates make some.
        may_batch = not (self.entity.has_sessions or self.entity.finds_duplicates)
        count = 5 if may_batch and number % 10 == 0 else 1
        return [(f"{self.entity.path}-{number}-{n}", 1) for n in range(count)]

    def _message(self, name: str, attempt: int) -> ServiceBusMessage:
        session = str(sum(name.encode()) % _SESSION_COUNT)
        return ServiceBusMessage(
            str(attempt),
            message_id=name,
            session_id=session if self.entity.has_sessions else None,
        )

    # --- receiving ------------------------------------------------------------

    def _receiver(
        self, client: ServiceBusClient, path: str, **options: Any
    ) -> ServiceBusReceiver:
        topic, _, subscription = path.partition("/subscriptions/")
        if subscription:
            return client.get_subscription_receiver(topic, subscription, **options)
        return client.get_queue_receiver(path, **options)

    async def _take(self, client: ServiceBusClient, book: ReceivedBook) -> None:
        async with self._receiver(client, book.path) as receiver:
            while True:
                await self._take_some(receiver, book)

    async def _receive_sessions(
        self, client: ServiceBusClient, book: ReceivedBook
    ) -> None:
        """The next session that has messages, until it has none."""
        while True:
            receiver = self._receiver(
                client,
                book.path,
                session_id=NEXT_AVAILABLE_SESSION,
                max_wait_time=_WAIT_SECONDS,
                # Without it the SDK gives back what comes between two calls, and has it
                # again behind what came meanwhile: the order would not be the bus's.
                prefetch_count=_AT_ONCE,
            )
            opened_at = _now()
            try:
                async with receiver:
                    while await self._take_some(receiver, book, opened_at):
                        pass
            except OperationTimeoutError:
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _take_some(
        self, receiver: ServiceBusReceiver, book: ReceivedBook, locked_at: int = 0
    ) -> int:
        """How many. What is in a session was not locked before that was."""
        begun_at = time.monotonic()
        async with asyncio.timeout(_CALL_SECONDS):
            got = await receiver.receive_messages(_AT_ONCE, max_wait_time=_WAIT_SECONDS)
        for message in got:
            if not _is_probe(message):
                book.seen(_seen(message, locked_at))
        for message in got:
            async with asyncio.timeout(_CALL_SECONDS):
                await receiver.complete_message(message)
            if not _is_probe(message):
                book.settled(message.sequence_number or 0, _now())
            self._answered(book.path, begun_at)
        return len(got)


def _is_probe(message: ServiceBusReceivedMessage) -> bool:
    return str(message.message_id).startswith(PROBE)


def _now() -> int:
    return int(time.time() * 1000)


def _seen(message: ServiceBusReceivedMessage, locked_at: int) -> Seen:
    until = message.locked_until_utc
    if until is not None:
        end = int(until.replace(tzinfo=UTC).timestamp() * 1000)
        locked_at = end - LOCK_SECONDS * 1000
    return Seen(
        name=str(message.message_id),
        attempt=int(str(message)),
        number=message.sequence_number or 0,
        session_id=message.session_id or "",
        locked_at=locked_at,
    )
