"""Clients that read too little or nothing: the bus stops sending to them in time.

Each has its own bus, whose memory is measured.
"""

import asyncio
from collections.abc import Callable

import pytest
from crash import messages
from crash.server_process import ServerProcess

from hostile.stranger import ATTACH, FLOW, Stranger, transfer_frame
from hostile.witness import Witness
from twinbus.amqp.codec import encode
from twinbus.amqp.framing import frame
from twinbus.amqp.messaging import AmqpValue, Message, Properties, encode_message
from twinbus.amqp.types import Described, Int, UInt, ULong

MEGABYTE = 1024 * 1024

# Kernel buffers of both sides take in a little; the rest is the bus's to hold back.
RECEIVE_BYTES = 32 * 1024


async def fill(server: ServerProcess, count: int, size: int) -> None:
    """Messages for somebody to have delivered."""
    async with await server.connect() as connection:
        sender = await connection.sender("target")
        for at in range(0, count, 200):
            names = [f"m{n}" for n in range(at, min(at + 200, count))]
            await sender.send_many([messages.named(name, size) for name in names])


async def memory_after(server: ServerProcess, witness: Witness) -> int:
    """Memory of the bus when the witness has gone round some times more."""
    await witness.rounds(20)
    return server.memory_bytes()


async def write_again_and_again(stranger: Stranger, data: bytes, count: int) -> None:
    """As much as the bus takes."""
    for _ in range(count):
        stranger.write(data)
        await stranger.drain()


@pytest.mark.parametrize("settle_mode", [0, 1], ids=["peek-lock", "and-delete"])
async def test_one_who_has_credit_and_does_not_read(
    make_server: Callable[..., ServerProcess], settle_mode: int
) -> None:
    server = make_server()
    await fill(server, 3_000, 20_000)
    before = server.memory_bytes()
    async with (
        Witness(server) as witness,
        await Stranger.dial(server, receive_bytes=RECEIVE_BYTES) as stranger,
    ):
        await stranger.open(server)
        stranger.attach("target", is_receiver=True, settle_mode=settle_mode)
        stranger.credit(0xFFFFFFFF)
        after = await memory_after(server, witness)
        # Sixty megabytes wait for it; a window and a buffer's worth are held.
        assert after - before < 25 * MEGABYTE


async def test_one_who_never_reads_what_became_of_its_messages(
    make_server: Callable[..., ServerProcess],
) -> None:
    server = make_server()
    before = server.memory_bytes()
    # A name that is too long: each gets a verdict of its own, of some length.
    refused = messages.named("x" * 200)
    sends = b"".join(transfer_frame(number, refused) for number in range(500))
    async with (
        Witness(server) as witness,
        await Stranger.dial(server, receive_bytes=RECEIVE_BYTES) as stranger,
    ):
        await stranger.open(server)
        stranger.attach("target")
        await stranger.expect(ATTACH)
        asking = asyncio.create_task(write_again_and_again(stranger, sends, 1_000))
        for _ in range(5):
            after = await memory_after(server, witness)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert after - before < 25 * MEGABYTE


async def test_one_who_asks_for_echoes_and_does_not_read_them(
    make_server: Callable[..., ServerProcess],
) -> None:
    """What makes the bus answer is not read while the answers are not."""
    server = make_server()
    before = server.memory_bytes()
    async with (
        Witness(server) as witness,
        await Stranger.dial(server, receive_bytes=RECEIVE_BYTES) as stranger,
    ):
        await stranger.open(server)
        # Flow of a session alone, with echo set; its answer is of the same size.
        window = [UInt(0), UInt(1000), UInt(0), UInt(1000)]
        fields = encode(Described(ULong(FLOW), [*window, *[None] * 5, True]))
        echoes = frame(0, fields) * 1_000

        asking = asyncio.create_task(write_again_and_again(stranger, echoes, 2_000))
        for _ in range(5):
            after = await memory_after(server, witness)
        assert not asking.done()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert after - before < 25 * MEGABYTE


@pytest.mark.parametrize("credit", [0, 0xFFFFFFFF], ids=["no-credit", "all-credit"])
async def test_one_who_asks_and_does_not_read_the_answers(
    make_server: Callable[..., ServerProcess], credit: int
) -> None:
    server = make_server()
    await fill(server, 100, 10_000)
    before = server.memory_bytes()
    request = encode_message(
        Message(
            properties=Properties(message_id="1", reply_to="target/$management"),
            application_properties={"operation": "com.microsoft:peek-message"},
            body=AmqpValue({"from-sequence-number": 1, "message-count": Int(100)}),
        )
    )
    async with (
        Witness(server) as witness,
        await Stranger.dial(server, receive_bytes=RECEIVE_BYTES) as stranger,
    ):
        await stranger.open(server)
        stranger.attach("target/$management", handle=0)
        stranger.attach("target/$management", handle=1, is_receiver=True)
        stranger.credit(credit, handle=1)
        await stranger.expect(ATTACH)
        await stranger.expect(ATTACH)
        # A quarter of a megabyte each, a quarter of a gigabyte in all.
        for _ in range(1_000):
            stranger.transfer(request)
        after = await memory_after(server, witness)
        assert after - before < 80 * MEGABYTE
