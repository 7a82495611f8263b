"""When an entity answers again: all its fragments can be read, and it takes a message.

Probes are clients of ours that try again at once, so that no pause of an SDK is
measured. A peek walks through all fragments, and fails if one of them is away.
"""

import asyncio
import itertools
import time
from collections.abc import Iterable

from brokers.processes import Brokers
from crash import messages

from twinbus.amqp.messaging import Data, Message, Properties, encode_message
from twinbus.amqp.types import Int
from twinbus.client import ClientConnection
from twinbus.client.errors import ClientError
from twinbus.errors import ServiceBusError

from .clients import PROBE
from .entities import ENTITIES, RING, DrilledEntity

_TRY_SECONDS = 3.0
_PAUSE_SECONDS = 0.05
_TROUBLE = (ClientError, ServiceBusError, OSError, TimeoutError, KeyError)

_numbers = itertools.count()


def entities_in(
    placements: dict[str, set[bytes]], stores: Iterable[bytes]
) -> list[str]:
    """The drilled entities that have a part in one of these stores."""
    hit = set(stores)
    paths = [*(one.path for one in ENTITIES), RING]
    return [path for path in paths if placements[path] & hit]


async def until_answering(
    brokers: Brokers, paths: Iterable[str], limit_seconds: float
) -> dict[str, float]:
    """When each entity answered, by the monotonic clock. Raises TimeoutError."""
    by_path = {one.path: one for one in ENTITIES}
    async with asyncio.timeout(limit_seconds):
        probes = {path: _probe(brokers, path, by_path.get(path)) for path in paths}
        found = await asyncio.gather(*probes.values())
    return dict(zip(probes, found, strict=True))


async def _probe(brokers: Brokers, path: str, entity: DrilledEntity | None) -> float:
    sources = [path] if entity is None else entity.sources()
    while True:
        try:
            async with asyncio.timeout(_TRY_SECONDS):
                connection = await brokers.connect_to_any()
                try:
                    for source in sources:
                        await _peek(connection, source)
                    if entity is not None:
                        await _send(connection, entity)
                    return time.monotonic()
                finally:
                    connection.abort()
        except _TROUBLE:
            await asyncio.sleep(_PAUSE_SECONDS)


async def _peek(connection: ClientConnection, path: str) -> None:
    body = {"from-sequence-number": 0, "message-count": Int(250)}
    await messages.manage(connection, path, "peek-message", body)


async def _send(connection: ClientConnection, entity: DrilledEntity) -> None:
    name = f"{PROBE}-{next(_numbers)}"
    properties = Properties(
        message_id=name, group_id=PROBE if entity.has_sessions else None
    )
    sender = await connection.sender(entity.path)
    await sender.send(
        encode_message(Message(properties=properties, body=Data((b"0",))))
    )
