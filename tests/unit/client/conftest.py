"""A bus of a few lines behind the client, over a transport in memory.

The behaviour depends on the address: `refused` refuses links, `rejects` rejects
messages, `silent` answers nothing, `$cbs` and `*/$management` answer requests,
everything else is a queue in memory.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import pytest

from twinbus.amqp.connection import Connection, Role
from twinbus.amqp.errors import AmqpError
from twinbus.amqp.events import (
    DispositionReceived,
    Event,
    LinkAttached,
    LinkFlow,
    MessageReceived,
    SaslInitReceived,
)
from twinbus.amqp.link import Link
from twinbus.amqp.messaging import (
    AmqpValue,
    Message,
    Properties,
    decode_message,
    encode_message,
)
from twinbus.amqp.outcomes import ACCEPTED, Accepted, encode_rejected
from twinbus.amqp.sasl import anonymous
from twinbus.amqp.types import Int
from twinbus.client.connection import ClientConnection


class MemoryTransport(asyncio.Transport):
    """Writes to the other side's protocol in the next turn of the loop."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self.protocol = protocol
        self.other: MemoryTransport | None = None
        self._closing = False

    def write(self, data: Any) -> None:
        assert self.other is not None
        if not self._closing:
            asyncio.get_running_loop().call_soon(self.other.deliver, bytes(data))

    def deliver(self, data: bytes) -> None:
        if not self._closing:
            self.protocol.data_received(data)

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            loop = asyncio.get_running_loop()
            loop.call_soon(self.protocol.connection_lost, None)
            if self.other is not None:
                loop.call_soon(self.other.close)

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self._closing


class FakeBus(asyncio.Protocol):
    def __init__(self, *, credit: int = 10, grants_sasl: bool = True) -> None:
        self.engine = Connection(Role.SERVER, "bus")
        self.credit = credit
        self.grants_sasl = grants_sasl
        self.queue: deque[bytes] = deque()
        self.tokens: dict[str, object] = {}
        self.settled: list[tuple[int, int, object]] = []
        # The answer to settlements, instead of an echo.
        self.refusal: bytes | None = None
        self.links: list[Link] = []
        # What links asked for, which an engine forgets with its answer.
        self.asked: list[tuple[Any, Any]] = []
        self.transport: asyncio.Transport | None = None
        self._moved = asyncio.Event()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until what the client sent has made the condition true."""
        while not condition():
            self._moved.clear()
            await self._moved.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.react(self.engine.receive_data(data, 0))
        self.flush()
        self._moved.set()

    def flush(self) -> None:
        assert self.transport is not None
        self.transport.write(self.engine.data_to_send())
        if self.engine.closed:
            self.transport.close()

    def react(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, SaslInitReceived):
                self.react(self.engine.sasl_outcome(self.grants_sasl))
            elif isinstance(event, LinkAttached):
                self.on_attached(event.link)
            elif isinstance(event, MessageReceived):
                self.on_message(event)
            elif isinstance(event, LinkFlow):
                self.deliver(event.link)
            elif isinstance(event, DispositionReceived):
                self.on_disposition(event)

    @staticmethod
    def address_of(link: Link) -> str:
        return str((link.source if link.peer_is_receiver else link.target).address)

    def on_attached(self, link: Link) -> None:
        if self.address_of(link) == "refused":
            link.refuse(AmqpError("amqp:not-found", "no such entity"))
            return
        self.asked.append((link.source, link.properties))
        link.accept(max_message_size=100_000)
        self.links.append(link)
        if not link.peer_is_receiver:
            link.issue_credit(self.credit)

    def on_message(self, event: MessageReceived) -> None:
        link, address = event.link, self.address_of(event.link)
        state = ACCEPTED
        if address == "rejects" and event.payload.startswith(b"bad"):
            state = encode_rejected(AmqpError("test:bad", "bad message"))
        elif address == "$cbs" or address.endswith("$management"):
            self.respond(event)
        else:
            self.queue.append(event.payload)
        if not event.settled and address != "silent":
            first = event.delivery_id
            settles = address != "second"
            link.session.send_disposition(True, first, first, settles, state)
        if link.credit <= 0:
            link.issue_credit(self.credit)

    def respond(self, event: MessageReceived) -> None:
        request = decode_message(event.payload)
        assert request.properties is not None
        asked = request.application_properties or {}
        ok = request.body != AmqpValue("wrong")
        self.tokens[str(asked.get("name"))] = request.body
        response = Message(
            properties=Properties(correlation_id=request.properties.message_id),
            application_properties={
                "status-code": Int(202 if ok else 401),
                "status-description": "Accepted" if ok else "no",
            },
            body=request.body,
        )
        if request.body == AmqpValue("ignore"):
            return
        payload = encode_message(response)
        if request.body == AmqpValue("garbage"):
            payload = b"\xff" + payload
        for link in event.link.session.links.values():
            if link.peer_is_receiver:
                link.send(payload, b"r", asked.get("settled", True) is True)

    def deliver(self, link: Link) -> None:
        if not link.peer_is_receiver:
            return
        settled = link.snd_settle_mode == 1
        while self.queue and link.credit > 0:
            payload = self.queue.popleft()
            link.send(payload, b"t" * 16, settled, context=payload)
        if link.drain:
            link.drained()

    def on_disposition(self, event: DispositionReceived) -> None:
        self.settled.append((event.first, event.last, event.state))
        event.session.pop_unsettled(event.first, event.last)
        if not event.settled:
            echo = ACCEPTED if isinstance(event.state, Accepted) else b"\x40"
            event.session.send_disposition(
                False, event.first, event.last, True, self.refusal or echo
            )


async def joined(bus: FakeBus) -> ClientConnection:
    """A client's connection to that bus, opened."""
    engine = Connection(Role.CLIENT, "client", hostname="h", sasl=anonymous())
    client = ClientConnection(engine)
    near, far = MemoryTransport(client), MemoryTransport(bus)
    near.other, far.other = far, near
    bus.connection_made(far)
    client.connection_made(near)
    await client.opened()
    return client


@pytest.fixture
def bus() -> FakeBus:
    return FakeBus()


@pytest.fixture
def join() -> Callable[[FakeBus], Awaitable[ClientConnection]]:
    """For tests that change the bus before the client comes."""
    return joined


@pytest.fixture
async def connection(bus: FakeBus) -> AsyncIterator[ClientConnection]:
    async with await joined(bus) as connection:
        yield connection
