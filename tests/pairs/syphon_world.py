"""A primary, a secondary and a syphon between them, for the tests of the syphon."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.aio.management import ServiceBusAdministrationClient

from twinbus.amqp.messaging import (
    AmqpValue,
    Data,
    Message,
    Properties,
    decode_message,
    encode_message,
)
from twinbus.amqp.sasl import plain
from twinbus.amqp.types import Timestamp
from twinbus.client import ClientConnection, connect
from twinbus.client.address import parse_address
from twinbus.clock import SystemClock
from twinbus.doors.amqp.namespace_management import describe
from twinbus.pairing.detour import SCHEDULED, Detour, diverted_properties
from twinbus.pairing.events import EventKind, PairEvent
from twinbus.pairing.own.engine import own_engine
from twinbus.pairing.sdk_syphon.engine import sdk_engine
from twinbus.pairing.syphon.settings import SyphonSettings
from twinbus.pairing.syphon.syphon import Syphon
from twinbus.testing import Bus

# A bound against hanging; never waited out.
PATIENCE_SECONDS = 20.0

PRIMARY = "site-a"
BACKLOG = f"{PRIMARY}/x-servicebus-transfer/0"

# What makes a syphon between two buses.
Make = Callable[..., Syphon[Any]]

# Everything that is tried again is tried again soon.
QUICK = SyphonSettings(
    first_probe_ms=50, last_probe_ms=200, busy_wait_ms=100, attempt_timeout_ms=2_000
)


def backlog(index: int) -> str:
    return f"{PRIMARY}/x-servicebus-transfer/{index}"


def diverted(
    path: str,
    body: str | bytes = b"",
    *,
    own: dict[str, object] | None = None,
    properties: Properties | None = None,
    annotations: dict[object, object] | None = None,
    **detour: Any,
) -> bytes:
    """A message as a paired sender puts it into a backlog queue."""
    content = body.encode() if isinstance(body, str) else body
    taken = diverted_properties(own or {}, Detour(path=path, **detour))
    return encoded(taken, content, properties, annotations)


def encoded(
    application: dict[str, object],
    body: bytes = b"",
    properties: Properties | None = None,
    annotations: dict[object, object] | None = None,
) -> bytes:
    values: dict[object, object] = dict(application)
    if SCHEDULED in values:
        values[SCHEDULED] = _timestamp(values[SCHEDULED])
    return encode_message(
        Message(
            application_properties=values,
            properties=properties,
            message_annotations=annotations,
            body=Data((body,)),
        )
    )


def _timestamp(value: Any) -> object:
    return Timestamp(round(value.timestamp() * 1000))


async def link_to(bus: Bus) -> ClientConnection:
    return await connect("localhost", bus.port, sasl=plain(bus.key_name, bus.key))


async def put(bus: Bus, path: str, payloads: Sequence[bytes]) -> None:
    async with await link_to(bus) as connection:
        sender = await connection.sender(path)
        await sender.send_many(payloads)


async def taken(bus: Bus, path: str, count: int) -> list[Message]:
    """Receive and complete this many messages."""
    found: list[Message] = []
    async with await link_to(bus) as connection:
        receiver = await connection.receiver(path, settled=True, credit=count)
        while len(found) < count:
            batch = await receiver.receive_batch(
                count - len(found), timeout_seconds=PATIENCE_SECONDS
            )
            assert batch, f"{len(found)} of {count} messages came"
            found += [decode_message(one.payload) for one in batch]
    return found


async def bodies(bus: Bus, path: str, count: int) -> list[str]:
    return [body_of(message) for message in await taken(bus, path, count)]


def body_of(message: Message) -> str:
    if isinstance(message.body, AmqpValue):
        return str(message.body.value)
    assert isinstance(message.body, Data)
    return b"".join(message.body.chunks).decode()


def counts(bus: Bus, path: str) -> tuple[int, int, int]:
    """Active, deferred and dead-lettered messages of a queue."""
    found = describe(bus.server.namespace.entity(path), bus.clock.now())["counts"]
    return found["active"], found["deferred"], found["dead_letter"]


def stored(bus: Bus, path: str) -> Message:
    """The first message of a queue as its sender encoded it."""
    owner = bus.owner
    number = bus.server.namespace.entity(path).fragment().number
    (first,) = bus._run(owner.store.browse(number, 0, 1, 1_000_000))
    return decode_message(first.raw)


async def until(condition: Callable[[], object]) -> None:
    """Wait for it, and no longer."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


class Events(list[PairEvent]):
    """What a syphon has told."""

    def of(self, kind: EventKind) -> list[PairEvent]:
        return [event for event in self if event.kind is kind]


def own_syphon(
    primary: Bus,
    secondary: Bus,
    settings: SyphonSettings = QUICK,
    events: Events | None = None,
    primary_string: str | None = None,
) -> Syphon[Any]:
    """Over twinbus.client."""
    engine = own_engine(
        parse_address(primary_string or primary.connection_string),
        parse_address(secondary.connection_string),
        SystemClock(),
    )
    on_event = None if events is None else events.append
    return Syphon(engine, PRIMARY, settings, on_event=on_event)


class SdkSyphon(Syphon[Any]):
    """Over azure-servicebus, with clients of its own."""

    def __init__(
        self,
        primary: Bus,
        secondary: Bus,
        settings: SyphonSettings = QUICK,
        events: Events | None = None,
    ) -> None:
        self._clients = [
            ServiceBusClient.from_connection_string(bus.connection_string)
            for bus in (primary, secondary)
        ]
        self._administration = ServiceBusAdministrationClient.from_connection_string(
            secondary.connection_string,
            connection_verify=str(secondary.ca_file),
            retry_total=0,
        )
        engine = sdk_engine(*self._clients, self._administration, SystemClock())
        on_event = None if events is None else events.append
        super().__init__(engine, PRIMARY, settings, on_event=on_event)

    async def close(self, *, at_once: bool = False) -> None:
        await super().close(at_once=at_once)
        for client in (*self._clients, self._administration):
            await client.close()


class Unsettled:
    """A source whose settlements never leave the process."""

    def __init__(self, source: Any) -> None:
        self._source = source
        # Messages that the syphon has restored, and would settle.
        self.restored = 0
        self.completed = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    async def complete(self, messages: Sequence[Any]) -> None:
        self.restored += len(messages)
        await asyncio.Event().wait()
        self.completed += len(messages)

    async def close(self) -> None:
        """A process that was killed says no goodbye."""


async def killed_before_it_settles(syphon: Syphon[Any]) -> Unsettled:
    """Start a syphon of one queue that restores, and gets no further."""
    secondary = syphon._engine.secondary
    make = secondary.source
    sources: list[Unsettled] = []

    def source(queue: Any) -> Any:
        sources.append(Unsettled(make(queue)))
        return sources[-1]

    secondary.source = source  # type: ignore[method-assign]
    await syphon.start()
    return sources[0]


@asynccontextmanager
async def running(syphon: Syphon[Any]) -> AsyncIterator[Syphon[Any]]:
    try:
        await syphon.start()
        yield syphon
    finally:
        await syphon.close()
