"""A client that receives and never settles: its messages are not kept in memory."""

import asyncio
from collections.abc import Callable

from crash import messages
from crash.server_process import PATIENCE_SECONDS, ServerProcess

from hostile.stranger import Stranger
from hostile.test_silence import fill
from hostile.witness import Witness

MEGABYTE = 1024 * 1024
SIZE = 250_000
COUNT = 800
LISTENER = ("listener", "only-listening")


async def receive_all(server: ServerProcess, stranger: Stranger) -> None:
    """All that there is, as bytes."""
    await stranger.open(server, key=LISTENER[1], key_name=LISTENER[0])
    stranger.attach("target", is_receiver=True)
    stranger.credit(COUNT)
    async with asyncio.timeout(2 * PATIENCE_SECONDS):
        await stranger.skip(COUNT * SIZE)


async def test_one_who_receives_and_settles_nothing(
    make_server: Callable[..., ServerProcess],
) -> None:
    server = make_server()
    await fill(server, COUNT, SIZE)
    async with Witness(server) as witness:
        before = server.memory_bytes()
        async with await Stranger.dial(server) as stranger:
            await receive_all(server, stranger)
            await witness.rounds(3)
            # Two hundred megabytes are locked; what is kept of them is 64.
            assert server.memory_bytes() - before < 110 * MEGABYTE
            # They are all handed out again, whole, when they come back.
            stranger.dispose(0, COUNT - 1, state=0x26)
            await stranger.drain()
            found = await complete_all(server)
    assert found == [f"m{number}" for number in range(COUNT)]


async def complete_all(server: ServerProcess) -> list[str]:
    """Names of all messages in the queue, in the order in which they came."""
    found: list[str] = []
    async with await server.connect() as connection:
        receiver = await connection.receiver("target", credit=100)
        async with asyncio.timeout(2 * PATIENCE_SECONDS):
            while len(found) < COUNT:
                deliveries = await receiver.receive_batch(100)
                for delivery in deliveries:
                    assert len(delivery.payload) > SIZE
                    found.append(messages.found(delivery.payload).name)
                first, last = deliveries[0], deliveries[-1]
                await receiver.settle_confirmed(first.delivery_id, last.delivery_id)
    return found
