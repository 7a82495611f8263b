"""A client that sends without a pause, wherever its queue is served, and knows what was
acknowledged."""

import asyncio
from collections.abc import Awaitable, Callable

from crash import messages

from twinbus.client.errors import ClientError
from twinbus.errors import ServiceBusError

from .processes import Brokers, until

_TROUBLE = (ClientError, ServiceBusError, OSError, TimeoutError)
_PAUSE_SECONDS = 0.1


class AcknowledgedSends:
    """To one queue."""

    def __init__(self, brokers: Brokers, queue: str, size: int) -> None:
        self._brokers = brokers
        self._queue = queue
        self._size = size
        self._number = 0
        self.names: set[str] = set()

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                async with await self._brokers.connect_to_any() as connection:
                    sender = await connection.sender(self._queue)
                    while True:
                        await self._send(sender.send)
            except _TROUBLE:
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _send(self, send: Callable[[bytes], Awaitable[object]]) -> None:
        self._number += 1
        name = f"m{self._number}"
        async with asyncio.timeout(5):
            await send(messages.named(name, self._size))
        self.names.add(name)

    async def have_more(self, count: int) -> None:
        """Wait until so many more were acknowledged."""
        wanted = len(self.names) + count

        async def are_more() -> bool:
            return len(self.names) >= wanted

        await until(are_more)
