"""A fake wire between two sans-I/O connections, for tests without sockets.

`pump` carries bytes both ways in chunks of a chosen size until neither side has any
left, and returns the events of each side. Time is a parameter. An EndpointPair is a
client and a server on such a wire, with the first steps of most tests.
"""

from dataclasses import dataclass, field
from typing import TypeVar, final

from twinbus.amqp.codec import encode
from twinbus.amqp.connection import Connection, Role
from twinbus.amqp.events import Event, LinkAttached, SaslInitReceived, SessionBegun
from twinbus.amqp.framing import frame
from twinbus.amqp.link import Link
from twinbus.amqp.messaging import Source, Target
from twinbus.amqp.session import AmqpSession
from twinbus.amqp.types import Described, ULong

E = TypeVar("E", bound=Event)


@dataclass(slots=True)
class Pumped:
    """Events of both sides, in the order in which each side saw them."""

    client: list[Event] = field(default_factory=list)
    server: list[Event] = field(default_factory=list)


def pump(
    client: Connection, server: Connection, *, chunk_size: int = 65536, now: int = 0
) -> Pumped:
    """Carry bytes between the two until both have nothing to send."""
    events = Pumped()
    while True:
        to_server = client.data_to_send()
        to_client = server.data_to_send()
        if not to_server and not to_client:
            return events
        events.server += feed(server, to_server, chunk_size=chunk_size, now=now)
        events.client += feed(client, to_client, chunk_size=chunk_size, now=now)


def feed(
    connection: Connection, data: bytes, *, chunk_size: int = 65536, now: int = 0
) -> list[Event]:
    """Pass bytes to a connection in chunks; every SASL request is accepted."""
    events: list[Event] = []
    for at in range(0, len(data), chunk_size):
        for event in connection.receive_data(data[at : at + chunk_size], now):
            events.append(event)
            if isinstance(event, SaslInitReceived):
                events += connection.sasl_outcome(True)
    return events


def raw_frame(
    channel: int, code: int, fields: list[object], payload: bytes = b""
) -> bytes:
    """A frame that no engine would write: any performative with any fields."""
    return frame(channel, encode(Described(ULong(code), fields)) + payload)


def of_type(events: list[Event], kind: type[E]) -> list[E]:
    """The events of one kind."""
    return [event for event in events if isinstance(event, kind)]


@final
class EndpointPair:
    """A client and a server, and the wire between them."""

    def __init__(
        self,
        *,
        client: Connection | None = None,
        server: Connection | None = None,
        chunk_size: int = 65536,
    ) -> None:
        self.client = client or Connection(Role.CLIENT, "client", hostname="bus.test")
        self.server = server or Connection(Role.SERVER, "server", require_sasl=False)
        self.chunk_size = chunk_size

    def pump(self, now: int = 0) -> Pumped:
        return pump(self.client, self.server, chunk_size=self.chunk_size, now=now)

    def open(self) -> None:
        self.client.open()
        self.pump()

    def begin(self) -> tuple[AmqpSession, AmqpSession]:
        """A session: the client's view and the server's."""
        session = self.client.begin()
        [begun] = of_type(self.pump().server, SessionBegun)
        return session, begun.session

    def attach_sender(
        self, session: AmqpSession, *, credit: int = 100, max_message_size: int = 0
    ) -> tuple[Link, Link]:
        """A link from client to server with credit: each side's view."""
        link = session.attach_sender(
            "to-server", Source(address="c"), Target(address="q")
        )
        [attached] = of_type(self.pump().server, LinkAttached)
        attached.link.accept(max_message_size=max_message_size)
        attached.link.issue_credit(credit)
        self.pump()
        return link, attached.link

    def attach_receiver(
        self, session: AmqpSession, *, credit: int = 100, max_message_size: int = 0
    ) -> tuple[Link, Link]:
        """A link from server to client with credit: each side's view."""
        link = session.attach_receiver(
            "to-client",
            Source(address="q"),
            Target(address="c"),
            max_message_size=max_message_size,
        )
        [attached] = of_type(self.pump().server, LinkAttached)
        attached.link.accept()
        self.pump()
        if credit:
            link.issue_credit(credit)
        self.pump()
        return link, attached.link
