"""Clients that work until the bus is gone, and the kills that end their work.

They record the confirmed operations in sets, which a test reads after the next start.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random

from crash.server_process import PATIENCE_SECONDS, ServerProcess
from twinbus.client import ClientConnection, ConnectionLost

ROUNDS = int(os.environ.get("TWINBUS_CRASH_ROUNDS", "8"))
KILLS_PER_SEED = 4
SEEDS = -(-ROUNDS // KILLS_PER_SEED)

ClientWork = Callable[[ClientConnection], Awaitable[None]]


async def until_the_end(server: ServerProcess, work: ClientWork) -> None:
    """One client; nothing but the end of its connection may end it."""
    try:
        connection = await server.connect()
    except (OSError, ConnectionLost):
        return
    try:
        await work(connection)
    except ConnectionLost:
        return
    finally:
        connection.abort()


@asynccontextmanager
async def killed_amid(
    server: ServerProcess,
    random: Random,
    has_begun: asyncio.Event,
    *clients: ClientWork,
) -> AsyncIterator[ClientConnection]:
    """Kill the bus some time after `has_begun`, start it again, and connect."""
    work = [asyncio.create_task(until_the_end(server, client)) for client in clients]
    async with asyncio.timeout(PATIENCE_SECONDS):
        await has_begun.wait()
    await asyncio.sleep(random.uniform(0.0, 0.3))
    server.kill()
    await asyncio.gather(*work)
    await server.start()
    async with await server.connect() as connection:
        yield connection
