"""Listening sockets: one port for all addresses, and a pause if files run out."""

import asyncio
import errno
import socket
from typing import Any

import pytest

from twinbus.process import listener as module
from twinbus.process.listener import Listener


class Door:
    """Takes in what is admitted."""

    def __init__(self) -> None:
        self.admitted: asyncio.Queue[socket.socket] = asyncio.Queue()

    def admit(self, connected: socket.socket) -> None:
        self.admitted.put_nowait(connected)

    async def next(self) -> socket.socket:
        async with asyncio.timeout(20):
            return await self.admitted.get()


async def dial(host: str, port: int) -> asyncio.StreamWriter:
    _, writer = await asyncio.open_connection(host, port)
    return writer


async def test_what_connects_is_handed_over() -> None:
    door = Door()
    listener = Listener.at("127.0.0.1", 0, door.admit)
    writers = [await dial("127.0.0.1", listener.port) for _ in range(3)]
    for _ in writers:
        connected = await door.next()
        assert not connected.getblocking()
        connected.close()
    listener.close()
    with pytest.raises(ConnectionRefusedError):
        await dial("127.0.0.1", listener.port)
    for writer in writers:
        writer.transport.abort()


async def test_all_addresses_of_a_name_have_the_same_port() -> None:
    door = Door()
    listener = Listener.at("", 0, door.admit)
    writer = await dial("127.0.0.1", listener.port)
    (await door.next()).close()
    writer.transport.abort()
    listener.close()


async def test_a_taken_port_is_an_error() -> None:
    door = Door()
    first = Listener.at("127.0.0.1", 0, door.admit)
    with pytest.raises(OSError) as refusal:
        Listener.at("127.0.0.1", first.port, door.admit)
    assert refusal.value.errno == errno.EADDRINUSE
    first.close()


async def test_it_goes_on_when_files_are_to_be_had_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.01)
    real = socket.socket.accept
    failures = iter([errno.EMFILE, errno.ENFILE])

    def accept(self: socket.socket) -> Any:
        number = next(failures, None)
        if number is not None:
            raise OSError(number, "none left")
        return real(self)

    monkeypatch.setattr(socket.socket, "accept", accept)
    door = Door()
    listener = Listener.at("127.0.0.1", 0, door.admit)
    writer = await dial("127.0.0.1", listener.port)
    (await door.next()).close()
    writer.transport.abort()
    listener.close()
    assert caplog.text.count("can't accept a connection") == 2
