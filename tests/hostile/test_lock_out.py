"""Clients without a key use all connections: clients with a key still get in."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine

import pytest
from crash import messages
from crash.server_process import PATIENCE_SECONDS, ServerProcess

from hostile.stranger import CLOSE, Stranger
from hostile.witness import Witness
from twinbus.client import ClientConnection

PLACES = 300
HEALTH = b"GET /health HTTP/1.1\r\nHost: bus\r\n\r\n"

Dial = Callable[[ServerProcess], Coroutine[None, None, Stranger]]


async def ask_health(stranger: Stranger) -> None:
    stranger.write(HEALTH)
    head = await stranger.read_until(b"\r\n\r\n")
    assert b" 200 " in head, head
    assert await stranger.read_until(b"healthy\n")


async def one_who_asks_for_health(server: ServerProcess) -> Stranger:
    stranger = await Stranger.dial(server)
    await ask_health(stranger)
    return stranger


async def one_who_says_nothing(server: ServerProcess) -> Stranger:
    return await Stranger.dial(server)


async def one_without_a_token(server: ServerProcess) -> Stranger:
    stranger = await Stranger.dial(server)
    await stranger.open(server, key="")
    return stranger


@contextlib.asynccontextmanager
async def crowd(server: ServerProcess, dial: Dial) -> AsyncIterator[list[Stranger]]:
    """One less than there are places, the witness's apart."""
    there: list[Stranger] = []
    try:
        while len(there) < PLACES - 1:
            count = min(50, PLACES - 1 - len(there))
            there += await asyncio.gather(*(dial(server) for _ in range(count)))
        yield there
    finally:
        for stranger in there:
            await stranger.__aexit__()


@pytest.mark.parametrize(
    "dial", [one_who_asks_for_health, one_who_says_nothing, one_without_a_token]
)
async def test_a_newcomer_with_a_key_gets_in(
    make_server: Callable[..., ServerProcess], dial: Dial
) -> None:
    server = make_server("--max-connections", str(PLACES))
    async with Witness(server), crowd(server, dial):
        # More than one, and each stays: it is not a single place that is kept free.
        newcomers: list[ClientConnection] = []
        for number in range(20):
            newcomers.append(await server.connect())
            sender = await newcomers[-1].sender("target")
            await sender.send(messages.named(f"newcomer {number}"))
        for newcomer in newcomers:
            newcomer.abort()
    assert "has shown no key to admit another" in server.errors
    # One line for all of them, or two: nobody fills the log by knocking.
    assert server.errors.count("has shown no key") < 20


async def test_who_has_to_go_is_told_why(
    make_server: Callable[..., ServerProcess],
) -> None:
    server = make_server("--max-connections", "2")
    async with Witness(server), await Stranger.dial(server) as stranger:
        await stranger.open(server, key="")
        newcomer = await server.connect()
        assert await stranger.expect_error(CLOSE) == "amqp:connection:forced"
        await stranger.expect_end()
        newcomer.abort()


async def test_a_health_check_that_is_kept_alive_goes_on(
    make_server: Callable[..., ServerProcess],
) -> None:
    server = make_server("--max-connections", str(PLACES))
    async with await Stranger.dial(server) as probe:
        for _ in range(50):
            await ask_health(probe)


async def test_one_without_a_key_that_says_nothing_more_is_let_go(
    make_server: Callable[..., ServerProcess],
) -> None:
    server = make_server("--handshake-seconds", "1")
    async with Witness(server), await Stranger.dial(server) as stranger:
        await ask_health(stranger)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await stranger.expect_end()
