"""Looks into a simulated cluster that has come to rest: which entities are there, and
which messages. Receives and completes all of them."""

import asyncio
from random import Random
from typing import Final

from simulator.broker_clients import SESSION_FILTER
from simulator.broker_visit import SESSION_IDS, SESSIONS, FindBroker, read_payload
from simulator.sighting import Violation
from simulator.simulated_broker import KEY, KEY_NAME
from twinbus.amqp.sasl import plain
from twinbus.client.connection import ClientConnection, connect
from twinbus.client.management import ask_namespace

_PORTION: Final = 50
_WAIT_SECONDS: Final = 1.5


async def listed(place: str, port: int) -> list[str]:
    """The paths of all entities, as one broker tells them."""
    connection = await connect(place, port, sasl=plain(KEY_NAME, KEY))
    found = await ask_namespace(connection, "list-entities", {})
    await connection.close()
    return sorted(one["path"] for one in found)


async def drain(paths: list[str], find: FindBroker, random: Random) -> list[int]:
    """The numbers of all messages, each queue by way of some broker."""
    taken = await drain_each(paths, find, random)
    return [number for numbers in taken.values() for number in numbers]


async def drain_each(
    paths: list[str], find: FindBroker, random: Random
) -> dict[str, list[int]]:
    """The same by path."""
    drains = [_visit(path, find(random)) for path in paths]
    return dict(zip(paths, await asyncio.gather(*drains), strict=True))


async def _visit(path: str, found: tuple[str, int] | None) -> list[int]:
    if found is None:
        raise Violation("no broker is there")
    place, port = found
    connection = await connect(place, port, sasl=plain(KEY_NAME, KEY))
    taken: list[int] = []
    for session_id in SESSION_IDS if path == SESSIONS else (None,):
        session: dict[object, object] | None = None
        if session_id is not None:
            session = {SESSION_FILTER: session_id}
        taken += await _drain(connection, path, session)
    await connection.close()
    return taken


async def _drain(
    connection: ClientConnection,
    path: str,
    session: dict[object, object] | None,
) -> list[int]:
    receiver = await connection.receiver(path, credit=_PORTION, source_filter=session)
    taken: list[int] = []
    while batch := await receiver.receive_batch(
        _PORTION, timeout_seconds=_WAIT_SECONDS
    ):
        for message in batch:
            at = message.delivery_id
            await receiver.settle_confirmed(at, at)
            taken.append(read_payload(message)[0])
    await receiver.close()
    return taken
