"""Very many connections at once, and one above the limit."""

import asyncio
import resource
from collections.abc import Callable, Iterator

import pytest
from crash import messages
from crash.server_process import PATIENCE_SECONDS, ServerProcess

from hostile.stranger import Stranger
from hostile.witness import Witness
from twinbus.client import ClientConnection, ConnectionLost

IDLE_COUNT = 2_000
DIALLED_AT_ONCE = 50

# Socket, engine, session and link of one idle connection.
CONNECTION_BYTES = 32 * 1024


@pytest.fixture
def many_files() -> Iterator[None]:
    """Leave to open as many files as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2 * IDLE_COUNT:
        pytest.skip(f"needs {2 * IDLE_COUNT} open files; the hard limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * IDLE_COUNT), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def open_idle(server: ServerProcess) -> Stranger:
    stranger = await Stranger.dial(server)
    await stranger.open(server)
    return stranger


@pytest.mark.usefixtures("many_files")
async def test_two_thousand_idle_connections(
    make_server: Callable[..., ServerProcess],
) -> None:
    server = make_server()
    before = server.memory_bytes()
    idle: list[Stranger] = []
    async with Witness(server):
        try:
            while len(idle) < IDLE_COUNT:
                dialling = (open_idle(server) for _ in range(DIALLED_AT_ONCE))
                idle += await asyncio.gather(*dialling)
            per_connection = (server.memory_bytes() - before) / IDLE_COUNT
            assert per_connection < CONNECTION_BYTES
            # They are not just open: any of them may begin to work.
            idle[-1].attach("target")
            await idle[-1].expect(0x12)
            idle[-1].transfer(messages.named("awake"))
            assert await idle[-1].expect_outcome() == (0x24, "")
        finally:
            for stranger in idle:
                await stranger.__aexit__()


async def connect_when_free(server: ServerProcess) -> ClientConnection:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                return await server.connect()
            except (ConnectionLost, ConnectionError):
                await asyncio.sleep(0.01)


async def test_one_connection_more_than_there_may_be(
    make_server: Callable[..., ServerProcess],
) -> None:
    server = make_server("--max-connections", "5")
    async with Witness(server):
        idle = [await open_idle(server) for _ in range(4)]
        try:
            for _ in range(20):
                with pytest.raises((ConnectionLost, ConnectionError)):
                    await server.connect()
        finally:
            await idle.pop().__aexit__()
        # A place that became free can be had, as soon as the server has noticed.
        async with await connect_when_free(server) as connection:
            await connection.sender("target")
        for stranger in idle:
            await stranger.__aexit__()
    assert "the limit (max_connections)" in server.errors
