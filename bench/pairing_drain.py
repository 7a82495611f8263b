"""How fast a syphon drains a backlog when nothing else happens.

The backlog is made as paired senders make it, in all backlog queues, and the syphon
runs until it is empty. What it moved is counted on the primary.
"""

import secrets
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from azure.servicebus.aio import ServiceBusClient

from bench.pairing_audit import message_id
from bench.pairing_load import CONFIG, PRIMARY, QUEUE, TRANSFER
from bench.pairing_process import ProcessFailed
from bench.pairing_results import OWN_ENGINE, DrainResult
from bench.pairing_site import Site
from bench.processes import usage_of_tree
from twinbus.amqp.messaging import Data, Message, Properties, encode_message
from twinbus.amqp.types import Symbol
from twinbus.clock import SystemClock
from twinbus.encoding.batch import BATCH_FORMAT
from twinbus.pairing.backlog_queues import find_or_make
from twinbus.pairing.detour import SEND_ID, Detour, diverted_properties
from twinbus.pairing.own.address import parse_address
from twinbus.pairing.own.connection import NamespaceConnection
from twinbus.pairing.own.engine import own_engine
from twinbus.pairing.own.messages import envelope
from twinbus.pairing.sdk.twins import SecondaryAdministration
from twinbus.pairing.sdk_syphon.engine import sdk_engine
from twinbus.pairing.send_ids import SendIds
from twinbus.pairing.syphon.ports import Engine
from twinbus.pairing.syphon.settings import ONCE_WAIT_MS, SyphonSettings
from twinbus.pairing.syphon.syphon import Syphon

_ENVELOPE_COUNT = 250
_BODY = bytes(256)
_CPU = ("syphon_cpu_us", "primary_cpu_us", "secondary_cpu_us")


@asynccontextmanager
async def two_sites() -> AsyncIterator[tuple[Site, Site]]:
    """A primary and a secondary with nothing in them."""
    with tempfile.TemporaryDirectory(prefix="bench-drain-") as folder:
        primary = Site(PRIMARY, Path(folder), CONFIG)
        secondary = Site("secondary", Path(folder))
        try:
            await primary.start()
            await secondary.start()
            yield primary, secondary
        finally:
            await primary.stop()
            await secondary.stop()


async def measure_drain(
    engine: str, messages: int, rounds: int, queues: int
) -> DrainResult:
    """Each round on new namespaces."""
    result = DrainResult(engine, messages)
    for _ in range(rounds):
        async with two_sites() as (primary, secondary):
            await fill_backlog(secondary, messages, queues)
            before = _cpu_seconds(primary, secondary)
            result.rates.append(messages / await drain(engine, primary, secondary))
            after = _cpu_seconds(primary, secondary)
            for name, began, ended in zip(_CPU, before, after, strict=True):
                getattr(result, name).append((ended - began) / messages * 1e6)
            moved, left = await moved_and_left(primary, secondary)
            if (moved, left) != (messages, 0):
                raise ProcessFailed(f"{moved} of {messages} moved, {left} are left")
    return result


async def moved_and_left(primary: Site, secondary: Site) -> tuple[int, int]:
    """Messages that are at home, and that are in the backlog still."""
    moved = await primary.waiting_count(QUEUE)
    return moved, await secondary.waiting_count(TRANSFER)


def _cpu_seconds(primary: Site, secondary: Site) -> list[float]:
    """Of this process, which runs the syphon, and of the two namespaces."""
    servers = [usage_of_tree(site.process.pid) for site in (primary, secondary)]
    return [time.process_time(), *(usage.cpu_seconds for usage in servers)]


async def fill_backlog(secondary: Site, messages: int, queues: int) -> None:
    """Put messages into backlog queues as paired senders do."""
    async with secondary.administration() as administration:
        paths = await find_or_make(
            SecondaryAdministration(administration), PRIMARY, queues
        )
    connection = NamespaceConnection(
        parse_address(secondary.connection_string), SystemClock()
    )
    send_ids = SendIds(secrets.token_bytes)
    try:
        link = await connection.get()
        for index, path in enumerate(paths):
            numbers = range(index, messages, queues)
            sender = await link.sender(path)
            for start in range(0, len(numbers), _ENVELOPE_COUNT):
                portion = numbers[start : start + _ENVELOPE_COUNT]
                payloads = [_diverted(number, send_ids.next()) for number in portion]
                batch = b"".join(map(envelope, payloads))
                await sender.send_many([batch], message_format=BATCH_FORMAT)
    finally:
        await connection.close()


def _diverted(number: int, send_id: bytes) -> bytes:
    """A message as a paired sender puts it into a backlog queue."""
    properties: dict[object, object] = {}
    properties.update(diverted_properties({}, Detour(path=QUEUE)))
    return encode_message(
        Message(
            message_annotations={Symbol(SEND_ID): send_id},
            properties=Properties(message_id=message_id(0, number)),
            application_properties=properties,
            body=Data((_BODY,)),
        )
    )


async def drain(engine: str, primary: Site, secondary: Site) -> float:
    """How many seconds it took, without the wait that proves the queues empty."""
    async with AsyncExitStack() as stack:
        syphon: Syphon[Any] = Syphon(
            await _engine(engine, primary, secondary, stack),
            PRIMARY,
            SyphonSettings(until_empty=True),
        )
        began_at = time.monotonic()
        try:
            await syphon.start()
            await syphon.finished()
            return time.monotonic() - began_at - ONCE_WAIT_MS / 1000
        finally:
            await syphon.close()


async def _engine(
    name: str, primary: Site, secondary: Site, stack: AsyncExitStack
) -> Engine[Any]:
    if name == OWN_ENGINE:
        return own_engine(
            parse_address(primary.connection_string),
            parse_address(secondary.connection_string),
            SystemClock(),
        )
    opened = stack.enter_async_context
    return sdk_engine(
        await opened(_client(primary)),
        await opened(_client(secondary)),
        await opened(secondary.administration()),
        SystemClock(),
    )


def _client(site: Site) -> ServiceBusClient:
    return ServiceBusClient.from_connection_string(site.connection_string)
