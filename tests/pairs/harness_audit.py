"""Reads the content of an entity with the SDK, without a pair.

`Peeker` peeks; `received` receives until nothing more comes. Messages are identified by
their message id: each sent message must be there once.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from azure.servicebus import ServiceBusReceiveMode
from azure.servicebus.aio import ServiceBusClient

# What must come gets this long; it is a bound against hanging, never waited out.
ARRIVAL_SECONDS = 30.0
# What must not come is waited for this long.
QUIET_SECONDS = 0.4
_PEEKED_AT_ONCE = 250


def text_of(message: Any) -> str:
    """The body of a message that was sent with a text body."""
    return b"".join(message.body).decode()


def ids_of(messages: Iterable[Any]) -> list[str]:
    return sorted(str(message.message_id) for message in messages)


def assert_once_each(sent: Iterable[str], seen: Iterable[Any]) -> None:
    """Nothing lost, nothing doubled, nothing that nobody sent."""
    wanted, found = Counter(sent), Counter(str(one.message_id) for one in seen)
    assert dict(wanted - found) == {}, "lost"
    assert dict(found - wanted) == {}, "doubled, or never sent"


def own_properties(message: Any) -> dict[str, Any]:
    """Application properties with texts as texts."""
    found = message.application_properties or {}
    return {_plain(name): _plain(value) for name, value in found.items()}


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


async def eventually(
    condition: Callable[[], Awaitable[Any]] | Callable[[], Any],
    what: str,
    seconds: float = ARRIVAL_SECONDS,
) -> Any:
    """Wait until a condition holds; returns what it gave."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        outcome = condition()
        if isinstance(outcome, Awaitable):
            outcome = await outcome
        if outcome:
            return outcome
        assert loop.time() < deadline, f"never happened: {what}"
        await asyncio.sleep(0.05)


class Audit:
    """Looks into the entities of one site, on connections of its own.

    Receivers that peek stay open until the end: to open one and to close one takes the
    SDK half a second each.
    """

    def __init__(self, connection_string: str) -> None:
        self._client = ServiceBusClient.from_connection_string(connection_string)
        self._peekers: dict[str, Any] = {}

    async def close(self) -> None:
        await asyncio.gather(*(one.close() for one in self._peekers.values()))
        await self._client.close()

    def _receiver(self, entity: str, **options: Any) -> Any:
        topic, is_subscription, subscription = entity.partition("/Subscriptions/")
        if is_subscription:
            return self._client.get_subscription_receiver(
                topic, subscription, **options
            )
        return self._client.get_queue_receiver(entity, **options)

    def _peeker(self, entity: str, options: dict[str, Any]) -> Any:
        key = f"{entity} {options}"
        if key not in self._peekers:
            self._peekers[key] = self._receiver(entity, **options)
        return self._peekers[key]

    async def peeked(self, entity: str, **options: Any) -> list[Any]:
        """All messages in it, whatever their state."""
        found: list[Any] = []
        peeker = self._peeker(entity, options)
        while portion := await peeker.peek_messages(
            max_message_count=_PEEKED_AT_ONCE,
            sequence_number=found[-1].sequence_number + 1 if found else 1,
        ):
            found += portion
        return found

    async def has(self, entity: str, count: int, **options: Any) -> list[Any]:
        """Wait until it holds as many messages, and a moment longer for more."""

        async def enough() -> bool:
            return len(await self.peeked(entity, **options)) >= count

        await eventually(enough, f"{count} messages in {entity}")
        await asyncio.sleep(QUIET_SECONDS)
        return await self.peeked(entity, **options)

    async def received(self, entity: str, count: int, **options: Any) -> list[Any]:
        """Receive and delete `count` messages, and whatever comes beyond them."""
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        found: list[Any] = []
        async with self._receiver(entity, receive_mode=mode, **options) as receiver:
            async with asyncio.timeout(ARRIVAL_SECONDS):
                while len(found) < count:
                    found += await receiver.receive_messages(
                        count - len(found), max_wait_time=ARRIVAL_SECONDS
                    )
            found += await receiver.receive_messages(10, max_wait_time=QUIET_SECONDS)
        return found
