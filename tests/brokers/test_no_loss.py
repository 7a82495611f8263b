"""What was acknowledged is there, whatever happens to brokers meanwhile."""

import asyncio
import signal

from crash import messages

from twinbus.client import ClientConnection
from twinbus.client.errors import ClientError
from twinbus.errors import ServiceBusError

from .processes import Brokers, until

_TROUBLE = (ClientError, ServiceBusError, OSError, KeyError, TimeoutError)
_PAUSE_SECONDS = 0.05


class Sending:
    """A client that sends to one queue, wherever that is served."""

    def __init__(self, brokers: Brokers, queue: str) -> None:
        self._brokers = brokers
        self._queue = queue
        self._number = 0
        self.acknowledged: set[str] = set()

    async def run(self) -> None:
        while True:
            for name in await self._brokers.alive():
                try:
                    async with await self._brokers.connect(name) as connection:
                        await self._send_on(connection)
                except _TROUBLE:
                    await asyncio.sleep(_PAUSE_SECONDS)

    async def _send_on(self, connection: ClientConnection) -> None:
        """Until it is refused."""
        sender = await connection.sender(self._queue)
        while True:
            self._number += 1
            name = f"{self._queue}-{self._number}"
            async with asyncio.timeout(5):
                await sender.send(messages.named(name))
            self.acknowledged.add(name)

    async def stored(self) -> set[str]:
        """What is in the queue, by whoever serves it."""
        for name in await self._brokers.alive():
            try:
                async with await self._brokers.connect(name) as connection:
                    found = await messages.peek_all(connection, self._queue)
                    return {one.name for one in found}
            except _TROUBLE:
                continue
        return set()

    async def have_more(self) -> None:
        """Wait until some more were acknowledged."""
        wanted = len(self.acknowledged) + 20

        async def are_more() -> bool:
            return len(self.acknowledged) >= wanted

        await until(are_more)


async def test_nothing_acknowledged_is_lost_by_moves_and_kills(
    brokers: Brokers,
) -> None:
    await brokers.start("--brokers=2")
    sendings = []
    for name in "12":
        for number in range(2):
            queue = f"q{name}{number}"
            await brokers.ask(name, "create-queue", path=queue, properties="{}")
            sendings.append(Sending(brokers, queue))
    tasks = [asyncio.create_task(one.run()) for one in sendings]
    await asyncio.gather(*(one.have_more() for one in sendings))
    joined = await brokers.start("--join")
    name = f"of process {joined.pid}"
    await until(lambda: brokers.owns_all("1", "2", name))
    await asyncio.gather(*(one.have_more() for one in sendings))
    await brokers.kill("1")
    await until(lambda: brokers.owns_all("1", "2", name))
    joined.send_signal(signal.SIGTERM)
    await asyncio.gather(*(one.have_more() for one in sendings))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await until(lambda: brokers.owns_all("1", "2"))
    for one in sendings:

        async def is_all_there(one: Sending = one) -> bool:
            return one.acknowledged <= await one.stored()

        await until(is_all_there, 15)
