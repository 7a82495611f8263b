"""A port of this machine whose bytes go to the bus over WebSockets, and back.

So every client of ours can be tried at that door.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from hostile.websocket_stranger import PATH

_READ_BYTES = 65_536


@asynccontextmanager
async def websocket_bridge(bus_port: int) -> AsyncIterator[int]:
    """The number of the port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(
                f"http://127.0.0.1:{bus_port}{PATH}", protocols=["AMQPWSB10"]
            ) as socket,
        ):
            there = asyncio.create_task(_there(reader, socket))
            await _back(socket, writer)
            there.cancel()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _there(
    reader: asyncio.StreamReader, socket: aiohttp.ClientWebSocketResponse
) -> None:
    while data := await reader.read(_READ_BYTES):
        await socket.send_bytes(data)
    await socket.close()


async def _back(
    socket: aiohttp.ClientWebSocketResponse, writer: asyncio.StreamWriter
) -> None:
    async for message in socket:
        writer.write(message.data)
        await writer.drain()
