"""What is in the bus before the attack begins; only what the chosen attacks need."""

from collections.abc import Iterable

from bench.attackers import aim
from bench.attackers.aim import Aim
from twinbus.amqp.composite import encode_composite
from twinbus.amqp.messaging import Data, Message, encode_message
from twinbus.amqp.outcomes import Modified
from twinbus.amqp.sasl import plain
from twinbus.client import ClientConnection, connect

NEEDS = {
    "unsettled-readers": (aim.LARGE, aim.LARGE_COUNT, aim.LARGE_BYTES),
    "dispositions-of-others": (aim.SMALL, aim.SMALL_COUNT, 20),
    "deferred-at-once": (aim.DEFERRED, aim.DEFERRED_COUNT, aim.LARGE_BYTES),
}
"""By attack: the queue, how many messages, how large."""

_AT_ONCE = 100


async def fill(found: Aim, attacks: Iterable[str]) -> None:
    """Send what the attacks are to find, and defer what they want deferred."""
    sasl = plain(aim.ROOT, found.keys[aim.ROOT])
    async with await connect("127.0.0.1", found.port, sasl=sasl) as connection:
        for name in attacks:
            if name in NEEDS:
                await _send(connection, *NEEDS[name])
        if "deferred-at-once" in attacks:
            await _defer(connection)


async def _send(
    connection: ClientConnection, queue: str, count: int, size: int
) -> None:
    payload = encode_message(Message(body=Data((bytes(size),))))
    sender = await connection.sender(queue)
    for start in range(0, count, _AT_ONCE):
        await sender.send_many([payload] * min(_AT_ONCE, count - start))


async def _defer(connection: ClientConnection) -> None:
    deferred = encode_composite(Modified(undeliverable_here=True))
    receiver = await connection.receiver(aim.DEFERRED, credit=_AT_ONCE)
    count = 0
    while count < aim.DEFERRED_COUNT:
        batch = await receiver.receive_batch(_AT_ONCE, timeout_seconds=30)
        assert batch, "the messages to defer did not come"
        first, last = batch[0].delivery_id, batch[-1].delivery_id
        await receiver.settle_confirmed(first, last, deferred)
        count += len(batch)
    await receiver.close()
