"""A door into one entity over the SDK: one link, opened when first used.

After a call that failed or was cancelled, the link is dropped, and the next call opens
another: the state of the old link is unknown. The old link is closed in the background
(`namespace.py`), because its peer may be frozen.

An idle link may have been cut meanwhile, or its token may have expired. The entity may
be healthy all the same. So a call that fails on an old link is tried once more on a new
one before it counts as a failure.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch
from azure.servicebus.aio import ServiceBusReceiver, ServiceBusSender
from azure.servicebus.exceptions import MessageSizeExceededError, ServiceBusError

from twinbus.instants import instant_of
from twinbus.limits import CANCEL_SENT_PER_REQUEST
from twinbus.pairing.errors import CannotCancel
from twinbus.pairing.failures import FailureKind
from twinbus.pairing.sdk.error_kinds import kind_of
from twinbus.sdk_internals import errors, links

if TYPE_CHECKING:
    from twinbus.pairing.sdk.namespace import SdkNamespace

T = TypeVar("T")

Work = Coroutine[Any, Any, T]

PING_CONTENT_TYPE: Final = "application/vnd.ms-servicebus-ping"
_PING_TIME_TO_LIVE: Final = timedelta(seconds=1)

_CANCEL_SENT: Final = "twinbus:cancel-sent"
_UNKNOWN_OPERATION: Final = frozenset(
    ("amqp:not-implemented", "amqp:not-allowed", "com.microsoft:argument-error")
)
"""How namespaces answer an operation that they do not have."""

_ABOUT_THE_MESSAGE: Final = frozenset(
    (FailureKind.TOO_LARGE, FailureKind.MESSAGE, FailureKind.ARGUMENT)
)
"""Failures after which the link can still be used."""

_ABOUT_THE_LINK: Final = frozenset(
    (
        *(FailureKind.CONNECTION, FailureKind.COMMUNICATION, FailureKind.NOT_FOUND),
        *(FailureKind.AUTHENTICATION, FailureKind.AUTHORIZATION),
    )
)
"""Failures that may go away with a new link."""


class SdkDoor:
    """`Door` for azure-servicebus."""

    def __init__(
        self,
        namespace: "SdkNamespace",
        path: str,
        link: Mapping[str, Any] | None = None,
    ) -> None:
        self._namespace = namespace
        self._path = path
        self._link = dict(link or {})
        self._sender: ServiceBusSender | None = None
        self._receiver: ServiceBusReceiver | None = None

    # --- sending --------------------------------------------------------------------

    async def send(
        self, messages: Sequence[ServiceBusMessage], timeout_seconds: float
    ) -> None:
        payload = messages[0] if len(messages) == 1 else list(messages)
        await self._send(payload, timeout_seconds)

    async def send_some(
        self, messages: Sequence[ServiceBusMessage], timeout_seconds: float
    ) -> int:
        async def fill_and_send(sender: ServiceBusSender) -> int:
            batch = await sender.create_message_batch()
            count = _fill(batch, messages)
            # A message that is too large for a batch may still be sent alone.
            payload = batch if count > 1 else messages[0]
            await sender.send_messages(payload, timeout=timeout_seconds)
            return max(count, 1)

        return await self._with_sender(fill_and_send, timeout_seconds)

    async def ping(self, timeout_seconds: float) -> None:
        message = ServiceBusMessage(
            b"", content_type=PING_CONTENT_TYPE, time_to_live=_PING_TIME_TO_LIVE
        )
        try:
            await self._send(message, timeout_seconds)
        except Exception as error:
            # The namespace does not know pings; but the entity takes messages.
            if not _asks_for_a_session(error):
                raise

    async def _send(self, payload: Any, timeout_seconds: float) -> None:
        await self._with_sender(
            lambda sender: sender.send_messages(payload, timeout=timeout_seconds),
            timeout_seconds,
        )

    # --- scheduling -----------------------------------------------------------------

    async def schedule(
        self,
        messages: Sequence[ServiceBusMessage],
        due_at: int,
        timeout_seconds: float,
    ) -> list[int]:
        due = instant_of(due_at)
        numbers = await self._with_sender(
            lambda sender: sender.schedule_messages(
                list(messages), due, timeout=timeout_seconds
            ),
            timeout_seconds,
        )
        return list(numbers)

    async def cancel(self, numbers: Sequence[int], timeout_seconds: float) -> None:
        await self._with_sender(
            lambda sender: sender.cancel_scheduled_messages(
                list(numbers), timeout=timeout_seconds
            ),
            timeout_seconds,
        )

    async def cancel_sent(
        self, send_ids: Sequence[bytes], timeout_seconds: float
    ) -> list[bool]:
        cancelled: list[bool] = []
        async with asyncio.timeout(timeout_seconds):
            for start in range(0, len(send_ids), CANCEL_SENT_PER_REQUEST):
                portion = send_ids[start : start + CANCEL_SENT_PER_REQUEST]
                cancelled += await self._cancel_sent(portion, timeout_seconds)
        return cancelled

    async def _cancel_sent(
        self, send_ids: Sequence[bytes], timeout_seconds: float
    ) -> list[bool]:
        try:
            answer = await self._with_sender(
                lambda sender: links.request(
                    sender, _CANCEL_SENT, {"send-ids": list(send_ids)}, timeout_seconds
                ),
                timeout_seconds,
            )
        except ServiceBusError as error:
            if errors.condition_of(error) not in _UNKNOWN_OPERATION:
                raise
            raise CannotCancel(
                f"'{self._namespace.name}' cannot cancel what waits in '{self._path}': "
                f"{error}"
            ) from None
        return [bool(one) for one in answer[b"cancelled"]]

    # --- looking --------------------------------------------------------------------

    async def open(self, timeout_seconds: float) -> None:
        """Prove that the entity can be sent to, without sending."""
        await self._with_sender(
            lambda sender: links.open_link(sender, timeout_seconds),
            timeout_seconds,
        )

    async def peek(
        self, from_number: int, max_count: int, timeout_seconds: float
    ) -> list[tuple[int, ServiceBusMessage]]:
        if self._receiver is None:
            client = self._namespace.client
            self._receiver = self._namespace.keep(client.get_queue_receiver(self._path))
        receiver = self._receiver
        async with asyncio.timeout(timeout_seconds):
            found = await self._over(
                receiver,
                receiver.peek_messages(
                    max_count, sequence_number=from_number, timeout=timeout_seconds
                ),
            )
        return [(message.sequence_number or 0, message) for message in found]

    # --- the link -------------------------------------------------------------------

    async def _with_sender(
        self, action: Callable[[ServiceBusSender], Work[T]], timeout_seconds: float
    ) -> T:
        async with asyncio.timeout(timeout_seconds):
            was_open = self._sender is not None
            try:
                return await self._once(action)
            except Exception as error:
                if not was_open or kind_of(error) not in _ABOUT_THE_LINK:
                    raise
            return await self._once(action)

    async def _once(self, action: Callable[[ServiceBusSender], Work[T]]) -> T:
        if self._sender is None:
            client = self._namespace.client
            sender = client.get_queue_sender(self._path, **self._link)
            self._sender = self._namespace.keep(sender)
        sender = self._sender
        result = await self._over(sender, action(sender))
        self._namespace.note_batch_bytes(self._path, links.batch_bytes_of(sender))
        return result

    async def _over(self, link: Any, work: Work[T]) -> T:
        """Wait for a call over a link; drop the link if it fails or is cancelled."""
        call = self._namespace.call(work)
        try:
            await asyncio.wait([call])
        except asyncio.CancelledError:
            self._give_up(link, call)
            raise
        if _spoils_its_link(call):
            self._give_up(link)
        return call.result()

    def _give_up(self, link: Any, left: asyncio.Task[Any] | None = None) -> None:
        if link is self._sender:
            self._sender = None
        if link is self._receiver:
            self._receiver = None
        self._namespace.discard(link, left)

    async def close(self) -> None:
        for link in (self._sender, self._receiver):
            if link is not None:
                self._give_up(link)


def _fill(batch: ServiceBusMessageBatch, messages: Sequence[ServiceBusMessage]) -> int:
    """How many messages the batch took, from the first on."""
    for count, message in enumerate(messages):
        try:
            batch.add_message(message)
        except MessageSizeExceededError:
            return count
    return len(messages)


def _spoils_its_link(call: asyncio.Task[Any]) -> bool:
    if call.cancelled():
        return True
    error = call.exception()
    return error is not None and kind_of(error) not in _ABOUT_THE_MESSAGE


def _asks_for_a_session(error: Exception) -> bool:
    return kind_of(error) in _ABOUT_THE_MESSAGE and "session" in str(error).lower()
