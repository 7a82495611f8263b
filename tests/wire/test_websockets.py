"""WebSockets by another implementation, and what ends connections from this side.

The client is `websockets`, which masks, fragments and closes by itself.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from websockets.exceptions import ConnectionClosed, ConnectionClosedOK, InvalidMessage
from websockets.sync.client import ClientConnection, connect

from bench.attackers.raw_frames import attach_frame, hello, transfer_frame
from twinbus.amqp.handshake import SASL_HEADER
from twinbus.amqp.messaging import Data, Message, encode_message
from twinbus.testing import Bus

PATIENCE_SECONDS = 20.0
MESSAGE = encode_message(Message(body=Data((b"hello",))))
CREDIT = b"\x00\x53\x13"
DISPOSITION = b"\x00\x53\x15"

Meet = Callable[[], ClientConnection]


@pytest.fixture
def bus() -> Iterator[Bus]:
    with Bus(settings={"allow_faults": True}) as running:
        running.create_queue("target")
        yield running


@pytest.fixture
def meet(bus: Bus) -> Iterator[Meet]:
    """Opens a WebSocket to the bus; nothing has been said inside yet."""
    address = f"ws://localhost:{bus.port}/$servicebus/websocket"
    with ExitStack() as stack:

        def make() -> ClientConnection:
            return stack.enter_context(
                connect(address, subprotocols=["AMQPWSB10"], proxy=None)  # type: ignore[list-item]
            )

        yield make


def read_until(client: ClientConnection, mark: bytes) -> bytes:
    """Messages until one has this mark."""
    read = b""
    while mark not in read:
        received = client.recv(PATIENCE_SECONDS)
        assert isinstance(received, bytes)
        read += received
    return read


def send_one(bus: Bus, client: ClientConnection) -> bytes:
    """Send a message, and wait for what the bus says of it."""
    client.send(hello(bus.key_name, bus.key))
    client.send(attach_frame("target"))
    read_until(client, CREDIT)
    client.send(transfer_frame(0, MESSAGE))
    return read_until(client, DISPOSITION)


def test_subprotocol_is_agreed_and_amqp_answers(bus: Bus, meet: Meet) -> None:
    client = meet()
    assert client.subprotocol == "AMQPWSB10"
    client.send([SASL_HEADER[:3], SASL_HEADER[3:5], SASL_HEADER[5:]])
    assert read_until(client, SASL_HEADER).startswith(SASL_HEADER)


def test_ping_and_close_of_the_client_are_answered(bus: Bus, meet: Meet) -> None:
    client = meet()
    assert client.ping(b"there?").wait(PATIENCE_SECONDS)
    assert DISPOSITION in send_one(bus, client)
    client.close(1001, "leaving")
    assert client.close_code == 1001


def test_close_of_amqp_is_followed_by_that_of_the_websocket(
    bus: Bus, meet: Meet
) -> None:
    client = meet()
    send_one(bus, client)
    close = b"\x00\x00\x00\x0c\x02\x00\x00\x00\x00\x53\x18\x45"
    client.send(close)
    with pytest.raises(ConnectionClosedOK):
        while True:
            client.recv(PATIENCE_SECONDS)
    assert client.close_code == 1000


def test_bus_that_stops_ends_its_websockets(bus: Bus, meet: Meet) -> None:
    client = meet()
    send_one(bus, client)
    bus.stop()
    with pytest.raises(ConnectionClosed):
        while True:
            client.recv(PATIENCE_SECONDS)


def test_connection_counts_like_any_other(bus: Bus, meet: Meet) -> None:
    clients = [meet() for _ in range(3)]
    send_one(bus, clients[0])
    described = [each.described() for each in bus.server._connections]
    assert [line[:10] for line in described] == ["AMQP 127.0"] * 3
    assert sum("a key" in line and "target" in line for line in described) == 1


def test_fault_that_drops_sends_drops_the_websocket(bus: Bus, meet: Meet) -> None:
    client = meet()
    bus.faults.set("drop", operations=["send"], entity="target")
    with pytest.raises(ConnectionClosed):
        send_one(bus, client)
    assert client.close_code == 1006
    bus.faults.clear()
    assert DISPOSITION in send_one(bus, meet())


def test_fault_that_begins_drops_what_is_attached(bus: Bus, meet: Meet) -> None:
    client = meet()
    send_one(bus, client)
    bus.faults.set("drop", operations=["send"], entity="target")
    with pytest.raises(ConnectionClosed):
        while True:
            client.recv(PATIENCE_SECONDS)


def test_fault_that_refuses_connections_refuses_websockets(
    bus: Bus, meet: Meet
) -> None:
    bus.faults.set("refuse", operations=["connect"])
    with pytest.raises((InvalidMessage, ConnectionError)):
        meet()
    bus.faults.clear()
    assert DISPOSITION in send_one(bus, meet())
