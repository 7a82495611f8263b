"""The client that does its work beside the attackers, and measures how long it waits.

`python -m bench.attackers.good_client CORE`, with the aim as JSON on stdin, until it is
told to stop; then it prints what it saw. It sends at a fixed rate, whether or not the
last send was confirmed, so that a stall is seen by all that fall into it. Every few
seconds a newcomer with a key connects and attaches, or is locked out.
"""

import asyncio
import itertools
import json
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from typing import Final

import uvloop

from bench.attackers import aim
from bench.attackers.aim import Aim
from bench.attackers.tokens import put_token
from twinbus.amqp.messaging import Data, Message, encode_message
from twinbus.amqp.sasl import plain
from twinbus.client import ClientConnection, ClientError, ClientReceiver, connect

_SENDS_PER_SECOND: Final = 25
_NEWCOMER_SECONDS: Final = 3.0
_PATIENCE_SECONDS: Final = 60.0
"""For an answer. A wait that is longer counts as one of this length, and as failed."""

_TOKEN_SECONDS: Final = 600
_LOCKED_OUT_SECONDS: Final = 10.0
"""A newcomer that is not in by then is locked out."""

_TROUBLE = (OSError, ClientError, TimeoutError)


@dataclass(slots=True)
class Seen:
    """What the client saw; seconds."""

    sends: list[float] = field(default_factory=list)
    settlements: list[float] = field(default_factory=list)
    newcomers: list[float] = field(default_factory=list)
    lock_outs: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    # How late the client's own timer was: what it says of waits is no better.
    lateness: float = 0.0


class GoodClient:
    """One connection that sends and receives, and newcomers beside it."""

    def __init__(self, found: Aim) -> None:
        self._aim = found
        self._payload = encode_message(Message(body=Data((bytes(256),))))
        self.seen = Seen()

    async def run(self, told_to_stop: asyncio.Event) -> None:
        """Work until told to stop; what is not answered by then has waited so long."""
        async with await self._connect(_PATIENCE_SECONDS) as connection:
            receiver = await connection.receiver(aim.GOOD_QUEUE, credit=500)
            work = [
                asyncio.create_task(self._send_for_ever(connection)),
                asyncio.create_task(self._settle_for_ever(receiver)),
                asyncio.create_task(self._newcomers()),
            ]
            stopping = asyncio.create_task(told_to_stop.wait())
            await asyncio.wait((*work, stopping), return_when=asyncio.FIRST_COMPLETED)
            for task in work:
                task.cancel()
            for outcome in await asyncio.gather(*work, return_exceptions=True):
                if not isinstance(outcome, asyncio.CancelledError):
                    self.seen.failures.append(f"{outcome!r}")
            connection.abort()

    async def _connect(self, patience_seconds: float) -> ClientConnection:
        return await connect(
            "127.0.0.1",
            self._aim.port,
            sasl=plain(aim.ROOT, self._aim.keys[aim.ROOT]),
            timeout_seconds=patience_seconds,
        )

    async def _newcomer(self, *, has_token: bool) -> ClientConnection:
        """One that shows its key at once, or puts a token, as SDKs do."""
        if not has_token:
            return await self._connect(_LOCKED_OUT_SECONDS)
        connection = await connect("127.0.0.1", self._aim.port)
        try:
            await put_token(connection, self._aim, aim.GOOD_QUEUE, _TOKEN_SECONDS)
        except BaseException:
            connection.abort()
            raise
        return connection

    async def _send_for_ever(self, connection: ClientConnection) -> None:
        sender = await connection.sender(aim.GOOD_QUEUE)
        begun_at = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number in itertools.count():
                due_at = begun_at + number / _SENDS_PER_SECOND
                await asyncio.sleep(max(0.0, due_at - time.monotonic()))
                late = time.monotonic() - due_at
                self.seen.lateness = max(self.seen.lateness, late)
                sending = sender.send(self._payload)
                group.create_task(self._timed(sending, self.seen.sends))

    async def _settle_for_ever(self, receiver: ClientReceiver) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                for delivery in await receiver.receive_batch(100):
                    at = delivery.delivery_id
                    settling = receiver.settle_confirmed(at, at)
                    group.create_task(self._timed(settling, self.seen.settlements))

    async def _timed(self, doing: object, waits: list[float]) -> None:
        started = time.monotonic()
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await doing  # type: ignore[misc]
        except _TROUBLE as trouble:
            self.seen.failures.append(f"{trouble!r}")
        finally:
            # One that is cut off by the end has waited so long, too.
            waits.append(time.monotonic() - started)

    async def _newcomers(self) -> None:
        for number in itertools.count():
            started = time.monotonic()
            try:
                async with asyncio.timeout(_LOCKED_OUT_SECONDS):
                    newcomer = await self._newcomer(has_token=number % 2 == 1)
                    try:
                        await newcomer.sender(aim.GOOD_QUEUE)
                    finally:
                        newcomer.abort()
                self.seen.newcomers.append(time.monotonic() - started)
            except _TROUBLE as trouble:
                self.seen.lock_outs.append(f"{trouble!r}")
            await asyncio.sleep(_NEWCOMER_SECONDS)


async def _main(found: Aim) -> Seen:
    told_to_stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told_to_stop.set)
    client = GoodClient(found)
    await client.run(told_to_stop)
    return client.seen


def main() -> None:
    os.sched_setaffinity(0, {int(sys.argv[1])})
    seen = uvloop.run(_main(Aim.of_json(sys.stdin.read())))
    print(
        json.dumps(
            {
                "sends": seen.sends,
                "settlements": seen.settlements,
                "newcomers": seen.newcomers,
                "lock_outs": seen.lock_outs,
                "failures": seen.failures,
                "lateness": seen.lateness,
            }
        )
    )


if __name__ == "__main__":
    main()
