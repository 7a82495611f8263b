"""A healthy client beside the hostile one: it must not notice anything.

It sends a message, receives and completes it, again and again, each step confirmed.
After the attack it does one more round. Then no step may have failed or taken long.
It runs in a thread with a loop of its own: time that the attacker's loop is busy is not
the bus's.
"""

import asyncio
import time
from threading import Condition, Thread
from types import TracebackType
from typing import Self

from crash import messages
from crash.server_process import ServerProcess

from twinbus.client import ClientReceiver, ClientSender

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
        # Why it ended before it was told to.
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, name="witness")
        # Told of every round, and of the end.
        self._changed = Condition()

    async def __aenter__(self) -> Self:
        self._thread.start()
        await self.rounds(1)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_over = True
        await asyncio.to_thread(self._thread.join)
        if self._error is not None:
            raise self._error
        assert self.slowest_seconds < SLOWEST_SECONDS

    async def rounds(self, count: int) -> None:
        """Wait until it has gone round so many times more."""
        await asyncio.to_thread(self._wait_for_rounds, self.round_count + count)

    def _wait_for_rounds(self, number: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._has_gone_round(number))
        if self._error is not None:
            raise self._error

    def _has_gone_round(self, number: int) -> bool:
        return self.round_count >= number or self._error is not None

    # --- in its thread --------------------------------------------------------

    def _run(self) -> None:
        try:
            asyncio.run(self._go_on())
        except BaseException as error:
            self._error = error
        with self._changed:
            self._changed.notify_all()

    async def _go_on(self) -> None:
        connection = await self._server.connect()
        try:
            sender = await connection.sender(QUEUE)
            receiver = await connection.receiver(QUEUE, credit=10)
            while not self._is_over:
                await self._round(sender, receiver)
                # Keeps an eye on the bus without being a load for it.
                await asyncio.sleep(0.005)
            await self._round(sender, receiver)
        finally:
            connection.abort()

    async def _round(self, sender: ClientSender, receiver: ClientReceiver) -> None:
        name = f"witness-{self.round_count}"
        started_at = time.monotonic()
        async with asyncio.timeout(10 * SLOWEST_SECONDS):
            await sender.send(messages.named(name))
            (delivery,) = await receiver.receive_batch(10)
            assert messages.found(delivery.payload).name == name
            at = delivery.delivery_id
            await receiver.settle_confirmed(at, at)
        self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - started_at)
        with self._changed:
            self.round_count += 1
            self._changed.notify_all()
