"""Connections and tokens in numbers (numbers 8 and 9 of what was found)."""

import asyncio

from bench.attackers import aim
from bench.attackers.aim import Aim
from bench.attackers.tally import Tally
from bench.attackers.tokens import put_token
from twinbus.client import connect

_HTTP_COUNT = 4_999
_DIALLED_AT_ONCE = 100
_HEALTH = b"GET /health HTTP/1.1\r\nHost: bus\r\n\r\n"
_HEALTH_SECONDS = 20.0
_TOKEN_SECONDS = 3_600
# Under attack a token may take its time to get there; one that has ended is refused.
_STALE_SECONDS = 20
_HELD_SECONDS = 3_600.0
_ASKED_AT_ONCE = 40


async def http_crowd(found: Aim, tally: Tally) -> None:
    """As many connections as there may be, each of which asks for the health."""
    dialling = asyncio.Semaphore(_DIALLED_AT_ONCE)

    async def ask_for_ever() -> None:
        while True:
            try:
                async with dialling:
                    reader, writer = await asyncio.open_connection(
                        "127.0.0.1", found.port
                    )
            except OSError as trouble:
                tally.refused(trouble)
                await asyncio.sleep(1)
                continue
            try:
                while not writer.is_closing():
                    writer.write(_HEALTH)
                    if not await reader.read(4_096):
                        break
                    tally.bite_count += 1
                    await asyncio.sleep(_HEALTH_SECONDS)
            except OSError:
                pass
            tally.refused_count += 1
            writer.transport.abort()
            await asyncio.sleep(0.2)

    async with asyncio.TaskGroup() as group:
        for _ in range(_HTTP_COUNT):
            group.create_task(ask_for_ever())


async def stale_tokens(found: Aim, tally: Tally) -> None:
    """Many queues, each with its token and its links; and one token that ends."""
    connection = await connect("127.0.0.1", found.port)
    queues = [aim.token_queue(number) for number in range(aim.TOKEN_QUEUES)]
    try:
        await put_token(connection, found, aim.TARGET, _STALE_SECONDS)
        for start in range(0, len(queues), _ASKED_AT_ONCE):
            some = queues[start : start + _ASKED_AT_ONCE]
            await asyncio.gather(
                *(put_token(connection, found, queue, _TOKEN_SECONDS) for queue in some)
            )
            await asyncio.gather(
                *(connection.sender(queue) for queue in some),
                *(connection.receiver(queue, credit=1) for queue in some),
            )
            tally.bite_count += 1
        await asyncio.sleep(_HELD_SECONDS)
    finally:
        connection.abort()
