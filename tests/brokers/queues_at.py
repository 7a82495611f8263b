"""Queues at certain brokers, and what clients receive from them."""

import asyncio

from crash import messages

from twinbus.amqp.events import MessageReceived
from twinbus.client.errors import ClientError
from twinbus.client.receiver import ClientReceiver

from .processes import PATIENCE_SECONDS, Brokers, as_json, until


async def made_at(brokers: Brokers, name: str, path: str, **properties: object) -> str:
    """A queue in a store of this broker, known to all; returns another broker."""
    await brokers.ask(name, "create-queue", path=path, properties=as_json(**properties))
    others = [one for one in await brokers.alive() if one != name]
    for other in others:
        await until(lambda other=other: finds_all(brokers, other, path))
    return others[0]


async def finds_all(brokers: Brokers, name: str, path: str) -> bool:
    """This broker knows where all fragments are."""
    try:
        async with await brokers.connect(name) as connection:
            await messages.peek_all(connection, path)
    except ClientError:
        return False
    return True


async def received(receiver: ClientReceiver, count: int) -> list[MessageReceived]:
    found: list[MessageReceived] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(found) < count:
            found += await receiver.receive_batch(count - len(found))
    return found


async def names_in(brokers: Brokers, path: str) -> list[str] | None:
    """What is in a queue, in its order, as any broker sees it; None: none does now."""
    for name in await brokers.alive():
        try:
            async with await brokers.connect(name) as connection:
                return [one.name for one in await messages.peek_all(connection, path)]
        except (ClientError, OSError, TimeoutError):
            continue
    return None
