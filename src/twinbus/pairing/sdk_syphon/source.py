"""One backlog queue over the SDK: receives batches, settles many messages at once."""

import asyncio
import logging
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

from azure.servicebus import ServiceBusMessageState
from azure.servicebus.aio import ServiceBusReceiver
from azure.servicebus.exceptions import MessageLockLostError, MessageNotFoundError

from twinbus.clock import Clock
from twinbus.pairing.detour import restored_from
from twinbus.pairing.sdk.namespace import SdkNamespace
from twinbus.pairing.sdk_syphon.errors import secondary_errors
from twinbus.pairing.sdk_syphon.messages import SdkMessage, read_received
from twinbus.pairing.syphon.ports import BacklogPage, BacklogQueue, Fault, Glimpse
from twinbus.sdk_internals import links

_log = logging.getLogger(__name__)

_SHORTEST_WAIT_SECONDS: Final = 0.1
"""With a shorter wait, the SDK does not even look for messages."""

_PREFETCH_COUNT: Final = 100
"""Without prefetch, the SDK releases what arrives between two calls, and order is
lost."""

_HOLD_MS: Final = 20_000
"""How long a prefetched message may wait: a lock has 60 seconds (P4), and restoring and
settling may take some of them."""

_OPEN_SECONDS: Final = 10.0
_CLOSE_SECONDS: Final = 2.0
_PAGE_COUNT: Final = 250
_FRAGMENT_BITS: Final = 48
_AT_A_TIME: Final = 50
"""Settlements that are under way together."""

_DESCRIPTION_CHARACTERS: Final = 1_024


class SdkSource:
    """`Source` for any namespace."""

    def __init__(
        self,
        namespace: SdkNamespace,
        queue: BacklogQueue,
        namespace_name: str,
        clock: Clock,
    ) -> None:
        self.path = queue.path
        self._namespace = namespace
        self._queue = queue
        self._ledger_name = f"{namespace_name}/{queue.path}"
        self._clock = clock
        self._receiver: ServiceBusReceiver | None = None
        # Since when prefetched messages may wait here.
        self._waiting_since = 0

    async def receive(
        self, max_count: int, max_wait_seconds: float
    ) -> list[SdkMessage]:
        if self._clock.monotonic() - self._waiting_since > _HOLD_MS:
            # This releases the messages that the link has prefetched.
            await self.close()
        async with secondary_errors():
            receiver = await self._open()
            # First what was prefetched: with a longer wait, the SDK waits for more.
            found = await receiver.receive_messages(max_count, _SHORTEST_WAIT_SECONDS)
            if not found and max_wait_seconds > _SHORTEST_WAIT_SECONDS:
                found = await receiver.receive_messages(max_count, max_wait_seconds)
        self._waiting_since = self._clock.monotonic()
        return [self._known(message, is_deferred=False) for message in found]

    async def _open(self) -> ServiceBusReceiver:
        """Open the link, if it is not open: a short receive would not be enough."""
        if self._receiver is None:
            self._receiver = self._namespace.client.get_queue_receiver(
                self.path, prefetch_count=_PREFETCH_COUNT
            )
            link: Any = self._receiver
            await links.open_link(link, _OPEN_SECONDS)
            self._waiting_since = self._clock.monotonic()
        return self._receiver

    def _known(self, received: Any, *, is_deferred: bool) -> SdkMessage:
        message = read_received(received, is_deferred=is_deferred)
        message.restored_from = restored_from(
            message.sequence_number, self._queue.created_at, self._ledger_name
        )
        return message

    # --- settling -------------------------------------------------------------

    async def complete(self, messages: Sequence[SdkMessage]) -> None:
        await self._settle(messages, "complete_message")

    async def abandon(self, messages: Sequence[SdkMessage]) -> None:
        await self._settle(messages, "abandon_message")

    async def defer(self, messages: Sequence[SdkMessage]) -> None:
        await self._settle(messages, "defer_message")

    async def dead_letter(self, messages: Sequence[SdkMessage], fault: Fault) -> None:
        await self._settle(
            messages,
            "dead_letter_message",
            reason=fault.reason,
            error_description=fault.description[:_DESCRIPTION_CHARACTERS],
        )

    async def _settle(
        self, messages: Sequence[SdkMessage], method: str, **texts: str
    ) -> None:
        async with secondary_errors():
            settle = getattr(await self._open(), method)
            for start in range(0, len(messages), _AT_A_TIME):
                portion = messages[start : start + _AT_A_TIME]
                results = await asyncio.gather(
                    *(settle(message.received, **texts) for message in portion),
                    return_exceptions=True,
                )
                for result in results:
                    self._check(result)

    def _check(self, result: object) -> None:
        if isinstance(result, MessageLockLostError):
            # Somebody else has, or will have, the message.
            _log.info("%s: a lock was lost: %s", self.path, result)
        elif isinstance(result, BaseException):
            raise result

    # --- deferred messages ----------------------------------------------------

    async def peek_deferred(self, first_number: int) -> BacklogPage:
        async with secondary_errors():
            seen = await (await self._open()).peek_messages(
                _PAGE_COUNT, sequence_number=first_number
            )
        if not seen:
            return BacklogPage((), 0, None)
        glimpses = [
            _glimpse(read_received(message, is_deferred=True))
            for message in seen
            if message.state == ServiceBusMessageState.DEFERRED
        ]
        active = [
            message.sequence_number
            for message in seen
            if message.state != ServiceBusMessageState.DEFERRED
        ]
        last = seen[-1].sequence_number or 0
        return BacklogPage(
            tuple(glimpses),
            len(seen),
            next_number=last + 1,
            first_active=active[0] if active else None,
        )

    async def take_deferred(self, numbers: Sequence[int]) -> list[SdkMessage]:
        """Service Bus wants numbers of one fragment in each request."""
        taken: list[SdkMessage] = []
        async with secondary_errors():
            for _, portion in groupby(numbers, lambda number: number >> _FRAGMENT_BITS):
                taken += await self._take(list(portion))
        return taken

    async def _take(self, numbers: list[int]) -> list[SdkMessage]:
        """A namespace gives all of them or none. If one is gone, ask for each half."""
        try:
            found = await (await self._open()).receive_deferred_messages(numbers)
        except MessageNotFoundError:
            if len(numbers) == 1:
                return []
            half = len(numbers) // 2
            return [
                *await self._take(numbers[:half]),
                *await self._take(numbers[half:]),
            ]
        return [self._known(message, is_deferred=True) for message in found]

    async def close(self) -> None:
        """Waits until the link is closed: otherwise another link might get messages
        that come after those that this one still has."""
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            await links.close_link(receiver, _CLOSE_SECONDS)


def _glimpse(message: SdkMessage) -> Glimpse:
    path = "" if message.detour is None else message.detour.path
    return Glimpse(message.sequence_number, path)
