"""Sends to all queues of a simulated cluster that has come to rest: each fragment must
take what is sent to it through any broker."""

import asyncio
from random import Random
from typing import Final

from simulator.broker_audit import BrokerAudit
from simulator.broker_visit import SESSIONS, FindBroker, payload_of
from simulator.sighting import Violation
from simulator.simulated_broker import KEY, KEY_NAME
from twinbus.amqp.sasl import plain
from twinbus.client.connection import connect
from twinbus.client.errors import NotAccepted

_KEYS: Final = tuple(f"key-{number}" for number in range(8))
"""Those of most fragments of a partitioned queue."""


async def probe(
    paths: list[str], find: FindBroker, random: Random, audit: BrokerAudit
) -> None:
    """Raises Violation."""
    probing = [_probe(path, find(random), audit) for path in paths]
    await asyncio.gather(*probing)


async def _probe(path: str, found: tuple[str, int] | None, audit: BrokerAudit) -> None:
    if found is None:
        raise Violation("no broker is there")
    place, port = found
    connection = await connect(place, port, sasl=plain(KEY_NAME, KEY))
    sender = await connection.sender(path)
    for key in _KEYS:
        sent = audit.new_message(path)
        try:
            await sender.send(payload_of(sent, "" if path == SESSIONS else key))
        except NotAccepted as error:
            raise Violation(f"'{path}' takes nothing at the end: {error}") from error
        sent.is_accepted = True
    await connection.close()
