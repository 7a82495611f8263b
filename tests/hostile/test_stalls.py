"""Cheap frames that used to cost much: others go on, and the bus stops when told to.

Each attack is one write of a few hundred kilobytes at most. The witness beside it
may not wait for seconds; how much work is done is counted in unit tests.
"""

import asyncio
import time
from collections.abc import Callable

from crash import messages
from crash.server_process import ServerProcess

from hostile.stranger import ATTACH, DETACH, DISPOSITION, FLOW, TRANSFER, Stranger
from hostile.witness import Witness
from twinbus.amqp.codec import encode
from twinbus.amqp.framing import frame
from twinbus.amqp.types import Described, UInt, ULong

LINKS = 990
STOP_SECONDS = 5.0


def raw(code: int, fields: list[object]) -> bytes:
    return frame(0, encode(Described(ULong(code), fields)))


def window(size: int) -> bytes:
    return raw(FLOW, [UInt(0), UInt(size), UInt(0), UInt(0xFFFFFFFF)])


def credit(handle: int) -> bytes:
    window_fields = [UInt(0), UInt(0), UInt(0), UInt(0xFFFFFFFF)]
    return raw(FLOW, [*window_fields, UInt(handle), UInt(0), UInt(10)])


async def with_links(server: ServerProcess, stranger: Stranger, count: int) -> None:
    """Receivers with credit, in a session with a closed window."""
    await stranger.open(server)
    for handle in range(count):
        stranger.attach("target", handle=handle, is_receiver=True)
        stranger.write(credit(handle))
    for _ in range(count):
        await stranger.expect(ATTACH)


async def test_a_window_that_closes_and_opens_over_many_links(
    make_server: Callable[..., ServerProcess],
) -> None:
    server = make_server()
    async with await Stranger.dial(server) as stranger:
        await with_links(server, stranger, LINKS)
        async with Witness(server) as witness:
            stranger.write((window(1) + window(0)) * 2_000)
            await witness.rounds(10)
        # It is still at it when the bus is told to stop.
        stranger.write((window(1) + window(0)) * 20_000)
        started_at = time.monotonic()
        assert await server.stop() == 0
        assert time.monotonic() - started_at < STOP_SECONDS


async def test_dispositions_of_other_deliveries(server: ServerProcess) -> None:
    count = 5_000
    async with await server.connect() as connection:
        sender = await connection.sender("target")
        await sender.send_many([messages.named("x", 0)] * count)
    async with await Stranger.dial(server) as stranger:
        await stranger.open(server)
        stranger.attach("target", is_receiver=True)
        stranger.credit(count)
        for _ in range(count):
            await stranger.expect(TRANSFER)
        outcome = Described(ULong(0x24), [])
        ranges = [(count + step, 2 * count + 2 * step) for step in range(4_000)]
        async with Witness(server) as witness:
            for first, last in ranges:
                fields = [True, UInt(first), UInt(last), True, outcome]
                stranger.perform_raw(DISPOSITION, fields)
            await witness.rounds(10)
            # Those that there are were not touched by it.
            stranger.dispose(0, count - 1)
            fields = await stranger.expect(DISPOSITION)
            assert fields[4].descriptor == 0x24


async def test_attaching_and_detaching_beside_many_links(server: ServerProcess) -> None:
    async with await Stranger.dial(server) as stranger:
        await with_links(server, stranger, LINKS)
        async with Witness(server) as witness:
            for _ in range(2_000):
                stranger.attach("target", handle=LINKS, is_receiver=True)
                stranger.perform_raw(DETACH, [UInt(LINKS), True])
            drained = asyncio.create_task(stranger.drain())
            await witness.rounds(10)
            for _ in range(2_000):
                await stranger.expect(DETACH)
            await drained
