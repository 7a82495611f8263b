"""The asynchronous face of a pair: what an application calls instead of the SDK.

Senders have the interface of the SDK's senders, and raise the same errors. Everything
else is passed on to the primary's client, so receivers come from the primary.
"""

import warnings
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Self
from uuid import uuid4

from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch

from twinbus.instants import instant_ms
from twinbus.pairing.failures import Verdict
from twinbus.pairing.options import SendAvailabilityPairedNamespaceOptions
from twinbus.pairing.sdk.batch import PairedMessageBatch
from twinbus.pairing.sdk.error_kinds import kind_of
from twinbus.pairing.sdk.messages import outgoing_copy
from twinbus.pairing.sdk.pairing import Pairing, open_pairing
from twinbus.pairing.status import PairStatus
from twinbus.sdk_internals.clients import entity_of
from twinbus.sdk_internals.messages import (
    BATCH_BYTES_STANDARD,
    as_messages,
    messages_of,
)

__all__ = ["PairedNamespaceClient", "PairedServiceBusSender", "pair_namespace"]


async def pair_namespace(
    primary: Any, options: SendAvailabilityPairedNamespaceOptions
) -> "PairedNamespaceClient":
    """Pair the primary with the secondary of the options; all clients asynchronous.

    When it returns, the pair is ready. It raises the SDK's errors if credentials are
    bad or backlog queues cannot be made.
    """
    return PairedNamespaceClient(primary, await open_pairing(primary, options))


class PairedNamespaceClient:
    """The primary's client, whose sends survive the loss of the primary."""

    def __init__(self, primary: Any, pairing: Pairing) -> None:
        """Made by `pair_namespace`."""
        self._primary = primary
        self._pairing = pairing

    def __repr__(self) -> str:
        pairing = self._pairing
        return (
            f"PairedNamespaceClient(primary={pairing.primary.name!r}, "
            f"secondary={pairing.secondary.name!r})"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._primary, name)

    @property
    def options(self) -> SendAvailabilityPairedNamespaceOptions:
        return self._pairing.options

    def get_queue_sender(
        self, queue_name: str, **link: Any
    ) -> "PairedServiceBusSender":
        """Takes whatever the SDK's takes, as `client_identifier`, `socket_timeout`."""
        return self._sender(queue_name, link)

    def get_topic_sender(
        self, topic_name: str, **link: Any
    ) -> "PairedServiceBusSender":
        """Takes whatever the SDK's takes, as `client_identifier`, `socket_timeout`."""
        return self._sender(topic_name, link)

    def _sender(self, path: str, link: dict[str, Any]) -> "PairedServiceBusSender":
        only = entity_of(self._primary)
        if only is not None and path != only:
            raise ValueError(
                f"The connection string of the client is for '{only}' alone, and not "
                f"for '{path}'."
            )
        return PairedServiceBusSender(self._pairing, path, link)

    def status(self) -> PairStatus:
        """The state of the pair, as this process sees it."""
        return self._pairing.status()

    async def close(self) -> None:
        """End the pair and close both clients; a second time does nothing."""
        await self._pairing.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


class PairedServiceBusSender:
    """Sends to one entity of the primary, or to its backlog on the secondary."""

    def __init__(self, pairing: Pairing, path: str, link: dict[str, Any]) -> None:
        """Made by `get_queue_sender` and `get_topic_sender`; `link` has the options for
        the SDK's senders."""
        self._pairing = pairing
        self.client_identifier = link.get("client_identifier") or f"twinbus-{uuid4()}"
        self._link = {**link, "client_identifier": self.client_identifier}
        self._sender = pairing.pair.sender(path, self._link)
        self.entity_name = path
        self.fully_qualified_namespace: str = pairing.primary.name

    def __repr__(self) -> str:
        return (
            f"PairedServiceBusSender({self.entity_name!r} on "
            f"{self.fully_qualified_namespace!r})"
        )

    async def send_messages(
        self,
        message: Any,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the SDK's name for it
        **unknown: Any,
    ) -> None:
        """Returns when the primary or the backlog has the messages.

        Without a time-out it waits long enough for a failover.
        """
        check_arguments(timeout, unknown)
        with self._pairing.pair.pending():
            await self._sender.send(outgoing(message), timeout)

    async def schedule_messages(
        self,
        messages: Any,
        schedule_time_utc: datetime,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        **unknown: Any,
    ) -> list[int]:
        """Returns numbers to cancel the messages by; for diverted ones, negative."""
        check_arguments(timeout, unknown)
        due_at = instant_ms(schedule_time_utc)
        with self._pairing.pair.pending():
            return await self._sender.schedule(outgoing(messages), due_at, timeout)

    async def cancel_scheduled_messages(
        self,
        sequence_numbers: int | Sequence[int],
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        **unknown: Any,
    ) -> None:
        check_arguments(timeout, unknown)
        if isinstance(sequence_numbers, int):
            sequence_numbers = [sequence_numbers]
        with self._pairing.pair.pending():
            await self._sender.cancel(list(sequence_numbers), timeout)

    async def create_message_batch(
        self, max_size_in_bytes: int | None = None
    ) -> PairedMessageBatch:
        """While the primary is away, the batch has the size that was last known, or
        that of the standard tier."""
        limit = await self._batch_bytes()
        if max_size_in_bytes and max_size_in_bytes > limit:
            raise ValueError(
                f"Max message size: {max_size_in_bytes} is too large, acceptable max "
                f"batch size is: {limit} bytes."
            )
        return PairedMessageBatch(
            max_size_in_bytes or limit,
            assign_message_ids=self._pairing.options.settings.assign_message_ids,
        )

    async def _batch_bytes(self) -> int:
        pairing, path = self._pairing, self.entity_name
        known = pairing.primary.batch_bytes(path)
        if known is None and not pairing.pair.entity(path).is_diverted():
            await self._ask_for_batch_bytes()
            known = pairing.primary.batch_bytes(path)
        return known or BATCH_BYTES_STANDARD

    async def _ask_for_batch_bytes(self) -> None:
        """Open a link, which tells the size; unknown while the primary is away."""
        settings = self._pairing.options.settings
        door = self._pairing.primary.door(self.entity_name, self._link)
        try:
            await door.open(settings.attempt_timeout_ms / 1000)
        except Exception as error:
            if settings.verdict(kind_of(error)) is Verdict.RAISE:
                raise
        finally:
            await door.close()

    async def close(self) -> None:
        await self._sender.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


def outgoing(messages: Any) -> list[ServiceBusMessage]:
    """Copies of all forms of messages that the SDK takes, also of a batch."""
    if isinstance(messages, ServiceBusMessageBatch):
        return [outgoing_copy(one) for one in messages_of(messages)]
    return [outgoing_copy(one) for one in as_messages(messages)]


def check_arguments(timeout: float | None, unknown: dict[str, Any]) -> None:
    """As the SDK does."""
    if unknown:
        warnings.warn(f"Unsupported keyword args: {unknown}", stacklevel=3)
    if timeout is not None and timeout <= 0:
        raise ValueError("The timeout must be greater than 0.")
