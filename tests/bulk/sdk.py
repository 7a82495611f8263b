"""Applications besides the reader: they use the vendor's SDK."""

from collections.abc import Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiver,
)
from sdk_links import opened

from twinbus.testing import Bus

# Far above what an arrival takes.
ARRIVAL_SECONDS = 10
# For what must not come: long enough to notice, short enough to wait for.
QUIET_SECONDS = 0.3


class Sdk:
    """One client; what it opens is closed with it."""

    def __init__(self, bus: Bus) -> None:
        self._stack = ExitStack()
        self.client = self._stack.enter_context(
            ServiceBusClient.from_connection_string(bus.connection_string)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def send(self, entity: str, *messages: str | ServiceBusMessage) -> None:
        """To a queue or a topic: the SDK's senders differ in name only."""
        made = [
            m if isinstance(m, ServiceBusMessage) else ServiceBusMessage(m)
            for m in messages
        ]
        with opened(self.client.get_queue_sender(entity)) as sender:
            for at in range(0, len(made), 200):
                sender.send_messages(made[at : at + 200])

    def schedule(self, entity: str, text: str, at: Any) -> int:
        with opened(self.client.get_queue_sender(entity)) as sender:
            [number] = sender.schedule_messages(ServiceBusMessage(text), at)
            return int(number)

    def receiver(self, entity: str, **options: Any) -> ServiceBusReceiver:
        """`topic/Subscriptions/name` for a subscription."""
        return self._stack.enter_context(opened(self._receiver(entity, **options)))

    def _receiver(self, entity: str, **options: Any) -> ServiceBusReceiver:
        topic, _, name = entity.partition("/Subscriptions/")
        if name:
            return self.client.get_subscription_receiver(topic, name, **options)
        return self.client.get_queue_receiver(entity, **options)

    def peek(self, entity: str, **options: Any) -> list[ServiceBusReceivedMessage]:
        with opened(self._receiver(entity, **options)) as receiver:
            return receiver.peek_messages(250, sequence_number=1)

    def texts(self, entity: str, **options: Any) -> list[str]:
        return texts_of(self.peek(entity, **options))


def texts_of(messages: Iterable[ServiceBusReceivedMessage]) -> list[str]:
    return [str(message) for message in messages]


def receive(
    receiver: ServiceBusReceiver, count: int
) -> list[ServiceBusReceivedMessage]:
    """Exactly so many, over as many calls as that takes."""
    found: list[ServiceBusReceivedMessage] = []
    while len(found) < count:
        more = receiver.receive_messages(count - len(found), ARRIVAL_SECONDS)
        assert more, f"{count} messages were wanted, {len(found)} came"
        found += more
    return found


def assert_nothing_comes(receiver: ServiceBusReceiver) -> None:
    assert texts_of(receiver.receive_messages(1, QUIET_SECONDS)) == []
