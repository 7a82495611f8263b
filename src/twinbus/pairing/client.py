"""The synchronous face of a pair: the asynchronous one, run in a thread of its own.

Calls may come from many threads at once. A blocking call into the SDK could not be
ended when its peer freezes. These calls can, because they only wait for the loop.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Self

from twinbus.pairing import aio
from twinbus.pairing.loop_thread import LoopThread
from twinbus.pairing.options import SendAvailabilityPairedNamespaceOptions
from twinbus.pairing.sdk.batch import PairedMessageBatch
from twinbus.pairing.status import PairStatus

__all__ = ["PairedNamespaceClient", "PairedServiceBusSender", "pair_namespace"]


def pair_namespace(
    primary: Any, options: SendAvailabilityPairedNamespaceOptions
) -> "PairedNamespaceClient":
    """Pair the primary with the secondary of the options; all clients synchronous."""
    loop = LoopThread("twinbus-pair")
    try:
        client = loop.run(aio.pair_namespace(primary, options))
    except BaseException:
        loop.close()
        raise
    return PairedNamespaceClient(client, loop)


class PairedNamespaceClient:
    """The primary's client, whose sends survive the loss of the primary."""

    def __init__(self, client: aio.PairedNamespaceClient, loop: LoopThread) -> None:
        """Made by `pair_namespace`."""
        self._client = client
        self._loop = loop

    def __repr__(self) -> str:
        return repr(self._client)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._client, name)

    @property
    def options(self) -> SendAvailabilityPairedNamespaceOptions:
        return self._client.options

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
        async def make() -> aio.PairedServiceBusSender:
            return self._client.get_queue_sender(path, **link)

        return PairedServiceBusSender(self._loop.run(make()), self._loop)

    def status(self) -> PairStatus:
        """The state of the pair, as this process sees it."""

        async def read() -> PairStatus:
            return self._client.status()

        return self._loop.run(read())

    def close(self) -> None:
        """End the pair and close both clients; a second time does nothing."""
        if not self._loop.is_closed:
            self._loop.run(self._client.close())
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class PairedServiceBusSender:
    """Sends to one entity of the primary, or to its backlog on the secondary."""

    def __init__(self, sender: aio.PairedServiceBusSender, loop: LoopThread) -> None:
        """Made by `get_queue_sender` and `get_topic_sender`."""
        self._sender = sender
        self._loop = loop
        self.entity_name = sender.entity_name
        self.fully_qualified_namespace = sender.fully_qualified_namespace
        self.client_identifier = sender.client_identifier

    def __repr__(self) -> str:
        return repr(self._sender)

    def send_messages(
        self, message: Any, *, timeout: float | None = None, **unknown: Any
    ) -> None:
        """Returns when the primary or the backlog has the messages.

        Without a time-out it waits long enough for a failover.
        """
        aio.check_arguments(timeout, unknown)
        # In this thread, because the caller's generator of messages belongs to it.
        messages = aio.outgoing(message)
        self._loop.run(self._sender.send_messages(messages, timeout=timeout))

    def schedule_messages(
        self,
        messages: Any,
        schedule_time_utc: datetime,
        *,
        timeout: float | None = None,
        **unknown: Any,
    ) -> list[int]:
        """Returns numbers to cancel the messages by; for diverted ones, negative."""
        aio.check_arguments(timeout, unknown)
        return self._loop.run(
            self._sender.schedule_messages(
                aio.outgoing(messages), schedule_time_utc, timeout=timeout
            )
        )

    def cancel_scheduled_messages(
        self,
        sequence_numbers: int | Sequence[int],
        *,
        timeout: float | None = None,
        **unknown: Any,
    ) -> None:
        aio.check_arguments(timeout, unknown)
        self._loop.run(
            self._sender.cancel_scheduled_messages(sequence_numbers, timeout=timeout)
        )

    def create_message_batch(
        self, max_size_in_bytes: int | None = None
    ) -> PairedMessageBatch:
        """While the primary is away, the batch has the size that was last known, or
        that of the standard tier."""
        return self._loop.run(self._sender.create_message_batch(max_size_in_bytes))

    def close(self) -> None:
        if not self._loop.is_closed:
            self._loop.run(self._sender.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
