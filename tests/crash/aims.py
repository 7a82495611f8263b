"""Moments at which a bus is killed: random ones, and critical ones.

Each aim gets a running bus and its load and kills the process; the seed decides at
which moment.
"""

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random

from crash.load import Load
from crash.server_process import PATIENCE_SECONDS, ServerProcess

Aim = Callable[[ServerProcess, Load, Random], Coroutine[None, None, None]]


async def at_random(server: ServerProcess, load: Load, random: Random) -> None:
    await asyncio.sleep(random.uniform(0.05, 0.8))
    server.kill()


async def _at_word(kind: str, count: int, server: ServerProcess, load: Load) -> None:
    """Kill in the very moment in which a client hears of the last of `count`."""
    heard = 0
    is_killed = asyncio.Event()

    def on_word(word: str) -> None:
        nonlocal heard
        heard += word == kind
        if heard >= count and not is_killed.is_set():
            server.signal(signal.SIGKILL)
            is_killed.set()

    load.on_word = on_word
    async with asyncio.timeout(PATIENCE_SECONDS):
        await is_killed.wait()
    server.kill()


async def right_after_a_send(server: ServerProcess, load: Load, random: Random) -> None:
    await _at_word("accepted", random.randint(1, 60), server, load)


async def right_after_a_settlement(
    server: ServerProcess, load: Load, random: Random
) -> None:
    await _at_word("settled", random.randint(1, 200), server, load)


async def amid_a_burst(server: ServerProcess, load: Load, random: Random) -> None:
    """While the bus has more unanswered messages than one turn can take."""
    await asyncio.sleep(random.uniform(0.05, 0.2))
    burst = asyncio.create_task(load.burst(2_000))
    await asyncio.sleep(random.uniform(0.0, 0.05))
    server.kill()
    await burst


async def during_a_checkpoint(
    server: ServerProcess, load: Load, random: Random
) -> None:
    """SQLite writes to the file itself only when it empties its log into it."""
    file = server.data / "messages.sqlite3"
    await asyncio.to_thread(_until_written, file, file.stat().st_mtime_ns)
    server.kill()


def _until_written(file: Path, known_at: int) -> None:
    patience_ends_at = time.monotonic() + PATIENCE_SECONDS
    while file.stat().st_mtime_ns == known_at:
        assert time.monotonic() < patience_ends_at, "no checkpoint"
        time.sleep(0.0001)


async def during_a_stop(server: ServerProcess, load: Load, random: Random) -> None:
    """SIGTERM, and no patience."""
    await asyncio.sleep(random.uniform(0.1, 0.4))
    server.signal(signal.SIGTERM)
    await asyncio.sleep(random.uniform(0.0, 0.05))
    server.kill()


async def during_the_next_start(
    server: ServerProcess, load: Load, random: Random
) -> None:
    """Twice: the second start finds what the first one left undone."""
    await at_random(server, load, random)
    for _ in range(2):
        server.spawn()
        await asyncio.sleep(random.uniform(0.05, 0.5))
        server.kill()


AIMS: tuple[Aim, ...] = (
    at_random,
    right_after_a_send,
    amid_a_burst,
    during_a_checkpoint,
    right_after_a_settlement,
    during_the_next_start,
    during_a_stop,
)
