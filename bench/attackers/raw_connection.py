"""One attacker's connection: it writes what it likes, and reads to throw away."""

import asyncio
import contextlib
import struct
from typing import Self

from bench.attackers.aim import Aim
from bench.attackers.raw_frames import hello

_SIZE = struct.Struct(">I")
_PATIENCE_SECONDS = 30.0


class RawConnection:
    """A TCP connection with a session, by a rule's key or without any."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def dial(cls, aim: Aim, rule: str = "") -> Self:
        """Raises OSError, EOFError, TimeoutError if the bus does not want it."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            connection = cls(*await asyncio.open_connection("127.0.0.1", aim.port))
        connection._writer.write(hello(rule, aim.keys[rule] if rule else ""))
        return connection

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        self._writer.transport.abort()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def write(self, data: bytes) -> None:
        """Raises OSError when the bus has closed it."""
        if self._writer.is_closing():
            # uvloop would call it an error of the program.
            raise ConnectionResetError("the bus has closed the connection")
        self._writer.write(data)
        await self._writer.drain()

    async def expect(self, code: int) -> None:
        """Read until a frame of this kind has come. Raises EOFError, TimeoutError."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while await self._next_code() != code:
                pass

    async def _next_code(self) -> int:
        """Of the next frame; 0 for a header of the protocol or an empty frame."""
        start = await self._reader.readexactly(8)
        if start[:4] == b"AMQP":
            return 0
        body = await self._reader.readexactly(_SIZE.unpack(start[:4])[0] - 8)
        return body[2] if len(body) > 2 else 0

    async def hear_out(self, seconds: float) -> None:
        """Throw away what comes, for so long or until the bus ends it."""
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(seconds):
                while await self._reader.read(1 << 20):
                    pass
