"""A stranger that comes by a WebSocket, and may break its rules, too."""

import asyncio
import contextlib
from typing import Self

from crash.server_process import PATIENCE_SECONDS, ServerProcess
from websockets.frames import Frame, Opcode

from hostile.stranger import Stranger

PATH = "/$servicebus/websocket"
HEADERS = {
    "Host": "localhost",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Protocol": "AMQPWSB10",
}


def request(path: str = PATH, **changed: str) -> bytes:
    """A handshake; a header that is changed to nothing is left out."""
    headers = {**HEADERS, **{k.replace("_", "-"): v for k, v in changed.items()}}
    lines = [f"{name}: {text}\r\n" for name, text in headers.items() if text]
    return (f"GET {path} HTTP/1.1\r\n" + "".join(lines) + "\r\n").encode("latin-1")


def framed(
    data: bytes, opcode: Opcode = Opcode.BINARY, *, is_last: bool = True
) -> bytes:
    """As clients have to send it."""
    return Frame(opcode, data, is_last).serialize(mask=True)


class WebSocketStranger(Stranger):
    """Frames by hand, of AMQP or of WebSockets; answers are read only if `listen`."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        super().__init__(reader, writer)
        self._socket = reader
        self._listening: asyncio.Task[None] | None = None
        # Control frames that came, and the code of the close.
        self.pongs: list[bytes] = []
        self.code: int | None = None

    @classmethod
    async def meet(cls, server: ServerProcess, *, receive_bytes: int = 0) -> Self:
        """Connect, and have the handshake."""
        made = await cls.dial(server, receive_bytes=receive_bytes)
        made.raw(request())
        head = await made.read_until(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 "), head
        return made

    async def __aexit__(self, *error: object) -> None:
        if self._listening is not None:
            self._listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._listening
        await super().__aexit__(*error)

    def raw(self, data: bytes) -> None:
        """Write to the socket, without a frame."""
        super().write(data)

    def write(self, data: bytes) -> None:
        """Write AMQP, in one binary message."""
        super().write(framed(data))

    def listen(self) -> None:
        """Read from now on: what is AMQP is read as from any stranger."""
        self._reader = asyncio.StreamReader()
        self._listening = asyncio.create_task(self._listen(self._reader))

    async def _listen(self, stream: asyncio.StreamReader) -> None:
        socket = self._socket
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                first, size = await socket.readexactly(2)
                # Whoever serves does not mask (RFC 6455 5.1).
                assert first & 0x70 == 0 and size < 127
                if size == 126:
                    size = int.from_bytes(await socket.readexactly(2), "big")
                payload = await socket.readexactly(size)
                if first == 0x82:
                    stream.feed_data(payload)
                elif first == 0x8A:
                    self.pongs.append(payload)
                elif first == 0x88:
                    self.code = int.from_bytes(payload[:2], "big")
        stream.feed_eof()

    async def expect_code(self) -> int | None:
        """The code of the close with which the bus ends; None without a close."""
        if self._listening is None:
            self.listen()
        assert self._listening is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self._listening
        return self.code
