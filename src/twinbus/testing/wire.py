"""A fake wire between two sans-I/O connections, for tests without sockets.

`pump` carries bytes both ways in chunks of a chosen size until neither side has any
left, and returns the events of each side. Time does not pass unless the test says so.
"""

from dataclasses import dataclass, field

from twinbus.amqp.connection import Connection
from twinbus.amqp.events import Event, SaslInitReceived


@dataclass(slots=True)
class Pumped:
    """Events of both sides, in the order in which each side saw them."""

    client: list[Event] = field(default_factory=list)
    server: list[Event] = field(default_factory=list)


def pump(
    client: Connection, server: Connection, *, chunk_size: int = 65536, now: int = 0
) -> Pumped:
    """Carry bytes between the two until both are silent."""
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
    """Give bytes to a connection in chunks; SASL is granted to whoever asks."""
    events: list[Event] = []
    for at in range(0, len(data), chunk_size):
        for event in connection.receive_data(data[at : at + chunk_size], now):
            events.append(event)
            if isinstance(event, SaslInitReceived):
                events += connection.sasl_outcome(True)
    return events
