"""A healthy client beside the hostile one: it must not notice anything.

It sends a message, receives and completes it, again and again, each step confirmed.
After the attack it does one more round. Then no step may have failed or taken long.
"""

import asyncio
import time
from types import TracebackType
from typing import Self

from crash import messages
from crash.server_process import ServerProcess

from twinbus.client import ClientConnection, ClientReceiver, ClientSender

QUEUE = "witness"
CONFIG = f'[queues.{QUEUE}]\nlock_duration = "PT5M"\n'

# Far above what a round takes (a few milliseconds), on a machine that is busy.
SLOWEST_SECONDS = 3.0


class Witness:
    """`async with Witness(server):` around whatever is done to the server."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self.slowest_seconds = 0.0
        self.round_count = 0
        self._is_over = False
        # Set at the end of every round.
        self._next_round = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._connection: ClientConnection = await self._server.connect()
        self._sender: ClientSender = await self._connection.sender(QUEUE)
        self._receiver: ClientReceiver = await self._connection.receiver(
            QUEUE, credit=10
        )
        await self._round()
        self._work = asyncio.create_task(self._go_on())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_over = True
        try:
            await self._work
            await self._round()
        finally:
            self._connection.abort()
        assert self.slowest_seconds < SLOWEST_SECONDS

    async def rounds(self, count: int) -> None:
        """Wait until it has gone round so many times more."""
        for _ in range(count):
            self._next_round.clear()
            await self._next_round.wait()

    async def _go_on(self) -> None:
        while not self._is_over:
            await self._round()
            # Keeps an eye on the bus without being a load for it.
            await asyncio.sleep(0.005)

    async def _round(self) -> None:
        self.round_count += 1
        name = f"witness-{self.round_count}"
        started_at = time.monotonic()
        async with asyncio.timeout(10 * SLOWEST_SECONDS):
            await self._sender.send(messages.named(name))
            (delivery,) = await self._receiver.receive_batch(10)
            assert messages.found(delivery.payload).name == name
            at = delivery.delivery_id
            await self._receiver.settle_confirmed(at, at)
        self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - started_at)
        self._next_round.set()
