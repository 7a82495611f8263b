"""The memory that many connections use together, with a key and without one.

Each test has its own bus, whose memory is measured. The bounds are far above what is
kept, and an attacker asks for several times as much.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine

import pytest
from crash.server_process import ServerProcess

from hostile.stranger import (
    ATTACH,
    CLOSE,
    DISPOSITION,
    FLOW,
    Closed,
    Stranger,
    attach_frame,
    begin_frame,
    transfer_frame,
)
from hostile.witness import Witness
from twinbus.amqp.messaging import AmqpValue, Message, Properties, encode_message
from twinbus.amqp.types import UInt

MEGABYTE = 1024 * 1024
SENDER = ("sender", "only-sending!")

LINKS = 80

# Made once: a client that has to encode all this would be slower than the bus.
HALF_DELIVERIES = b"".join(
    transfer_frame(handle, b"x" * 60_000, handle=handle, more=True)
    for handle in range(LINKS)
)
TO_CBS = b"".join(attach_frame("$cbs", handle=handle) for handle in range(LINKS))
TO_QUEUE = b"".join(attach_frame("target", handle=handle) for handle in range(LINKS))
LONG_NAMES = b"".join(
    attach_frame("x" * 20_000, handle=handle, name=f"{handle}" + "n" * 20_000)
    for handle in range(100)
)
SESSIONS = b"".join(begin_frame(channel) for channel in range(1, 1_000))

Attack = Callable[[ServerProcess, Stranger], Coroutine[None, None, None]]


@contextlib.asynccontextmanager
async def many(
    server: ServerProcess, count: int, attack: Attack
) -> AsyncIterator[list[Stranger]]:
    """So many connections that have done this, as far as the bus let them."""
    there: list[Stranger] = []

    async def one() -> None:
        stranger = await Stranger.dial(server)
        there.append(stranger)
        with contextlib.suppress(Closed, OSError, asyncio.IncompleteReadError):
            await attack(server, stranger)
            await stranger.drain()

    try:
        for _ in range(0, count, 10):
            await asyncio.gather(*(one() for _ in range(10)))
        yield there
    finally:
        for stranger in there:
            await stranger.__aexit__()


async def attach_all(stranger: Stranger, attaches: bytes) -> None:
    stranger.write(attaches)
    await stranger.read_until(f"link-0-{LINKS - 1}".encode())


async def half_token_requests(server: ServerProcess, stranger: Stranger) -> None:
    """Links to `$cbs`, each with a request whose end never comes."""
    await stranger.open(server, key="")
    await attach_all(stranger, TO_CBS)
    stranger.write(HALF_DELIVERIES)


async def long_names(server: ServerProcess, stranger: Stranger) -> None:
    """Links that are refused, and whose names the bus would remember."""
    await stranger.open(server, key="")
    stranger.write(LONG_NAMES)


async def sessions(server: ServerProcess, stranger: Stranger) -> None:
    await stranger.open(server, key="")
    stranger.write(SESSIONS)


def put_token() -> bytes:
    """A request whose answer is as long as it is: it repeats the id."""
    properties = Properties(message_id="x" * 50_000)
    operation = {"operation": "put-token", "name": "target"}
    return encode_message(
        Message(
            properties=properties,
            application_properties=operation,
            body=AmqpValue("no token"),
        )
    )


TOKENS = b"".join(transfer_frame(number, put_token()) for number in range(100))


async def answers_without_credit(server: ServerProcess, stranger: Stranger) -> None:
    await stranger.open(server, key="")
    stranger.attach("$cbs", handle=0)
    stranger.attach("$cbs", handle=1, is_receiver=True)
    await stranger.expect(ATTACH)
    await stranger.expect(ATTACH)
    stranger.write(TOKENS)


async def answers_behind_a_closed_window(
    server: ServerProcess, stranger: Stranger
) -> None:
    """With credit for all of them, and a session's window of none."""
    await stranger.open(server, key="")
    stranger.attach("$cbs", handle=0)
    stranger.attach("$cbs", handle=1, is_receiver=True)
    await stranger.expect(ATTACH)
    await stranger.expect(ATTACH)
    window = [UInt(0), UInt(0), UInt(0), UInt(0xFFFFFFFF)]
    stranger.perform_raw(FLOW, [*window, UInt(1), UInt(0), UInt(0xFFFFFFFF)])
    stranger.write(TOKENS)


@pytest.mark.parametrize(
    "attack",
    [
        half_token_requests,
        long_names,
        sessions,
        answers_without_credit,
        answers_behind_a_closed_window,
    ],
)
async def test_sixty_without_a_key(
    make_server: Callable[..., ServerProcess], attack: Attack
) -> None:
    server = make_server()
    async with Witness(server) as witness:
        before = server.memory_bytes()
        async with many(server, 60, attack):
            await witness.rounds(3)
            # Each would have five megabytes and more.
            assert server.memory_bytes() - before < 80 * MEGABYTE
            # A newcomer is none of them: strangers pay for strangers.
            async with await server.connect() as connection:
                await connection.sender("target")


async def test_one_that_takes_too_much_without_a_key_is_told_so(
    make_server: Callable[..., ServerProcess],
) -> None:
    server = make_server()
    async with Witness(server), await Stranger.dial(server) as stranger:
        await stranger.open(server, key="")
        for handle in range(5):
            stranger.attach("$cbs", handle=handle)
            await stranger.expect(ATTACH)
        for handle in range(5):
            stranger.transfer(b"x" * 60_000, handle=handle, more=True)
        assert await stranger.expect_error(CLOSE) == "amqp:resource-limit-exceeded"
        await stranger.expect_end()


async def half_messages(server: ServerProcess, stranger: Stranger) -> None:
    await stranger.open(server, key=SENDER[1], key_name=SENDER[0])
    await attach_all(stranger, TO_QUEUE)
    stranger.write(HALF_DELIVERIES)


async def test_half_messages_of_many_with_a_key(
    make_server: Callable[..., ServerProcess],
) -> None:
    """Four megabytes each, within what one connection may have."""
    server = make_server()
    async with Witness(server) as witness:
        before = server.memory_bytes()
        async with many(server, 80, half_messages):
            await witness.rounds(3)
            assert server.memory_bytes() - before < 170 * MEGABYTE
            async with await Stranger.dial(server) as good:
                await good.open(server, key=SENDER[1], key_name=SENDER[0])
                good.attach("target")
                await good.expect(ATTACH)
                good.transfer(b"\x00\x53\x75\xa0\x03", more=True)
                good.more(b"one", last=True)
                fields = await good.expect(DISPOSITION)
                assert int(fields[4].descriptor) == 0x24
    assert "closing the connection that holds most" in server.errors
    assert SENDER[1] not in server.errors
