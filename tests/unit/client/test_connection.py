"""Connecting over a real socket, heartbeats, and how a connection ends."""

import asyncio
from collections.abc import Callable

import pytest
import uvloop

from twinbus.amqp.connection import Connection, Role
from twinbus.amqp.errors import AmqpError
from twinbus.amqp.framing import EMPTY_FRAME
from twinbus.amqp.types import Symbol
from twinbus.client import ClientConnection, ConnectionLost, connect


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_connection_over_a_socket(
    bus, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(send_over_a_socket(bus))
    assert len(bus.queue) == 40


async def send_over_a_socket(bus) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: bus, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, await connect("127.0.0.1", port) as connection:
        sender = await connection.sender("q")
        await sender.send_many([b"x" * 50_000] * 40)


async def test_a_refused_login_says_why(bus) -> None:
    bus.grants_sasl = False
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: bus, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        with pytest.raises(ConnectionLost, match="unauthorized-access"):
            await connect("127.0.0.1", port)


async def test_nobody_listening_is_an_os_error() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    with pytest.raises(OSError, match="Connect call failed"):
        await connect("127.0.0.1", port)


async def test_a_listener_that_says_nothing_times_out() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        with pytest.raises(TimeoutError):
            await connect("127.0.0.1", port, timeout_seconds=0.05)


async def test_the_buss_reason_to_close_is_told(
    bus, connection: ClientConnection
) -> None:
    sender = await connection.sender("q")
    bus.engine.close(AmqpError("amqp:connection:forced", "maintenance"))
    bus.flush()
    with pytest.raises(ConnectionLost, match="maintenance"):
        while True:
            await sender.send(b"m")


async def test_closing_twice_is_no_error(connection: ClientConnection) -> None:
    await connection.close()
    await connection.close()


async def test_a_link_that_the_bus_asks_for_is_refused(
    bus, connection: ClientConnection
) -> None:
    await connection.sender("q")
    [session] = bus.engine.sessions.values()
    link = session.attach_receiver("odd", None, None)
    bus.flush()
    await bus.until(lambda: link not in session.links.values())
    await connection.sender("still fine")


async def test_heartbeats_go_out_by_themselves() -> None:
    written: asyncio.Queue[bytes] = asyncio.Queue()

    class Recorder(asyncio.Transport):
        def write(self, data: bytes) -> None:
            written.put_nowait(bytes(data))

        def close(self) -> None:
            pass

        def abort(self) -> None:
            pass

    client = ClientConnection(Connection(Role.CLIENT, "c"))
    server = Connection(Role.SERVER, "s", require_sasl=False, idle_timeout_ms=20)
    client.connection_made(Recorder())
    server.receive_data(await written.get(), 0)
    client.data_received(server.data_to_send())
    await client.opened()
    async with asyncio.timeout(10):
        assert await written.get() == EMPTY_FRAME
        assert await written.get() == EMPTY_FRAME
    client.connection_lost(None)


async def test_properties_of_the_peer_can_be_read(join, bus) -> None:
    offered = {Symbol("product"): "twinbus"}
    bus.engine = Connection(Role.SERVER, "bus", properties=offered)
    async with await join(bus) as connection:
        assert connection.peer_properties == offered


async def test_peer_without_properties_has_none(connection) -> None:
    assert connection.peer_properties == {}
