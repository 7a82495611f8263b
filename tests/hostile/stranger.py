"""A client that can send anything: bytes and frames by hand, nothing automatically.

It answers nothing, counts no credit and follows no rules; the answers of the bus can be
read frame by frame. Bodies of frames are built with the codec, so that a test only
writes what is wrong.
"""

import asyncio
import contextlib
import itertools
import socket
import struct
from typing import Any, Self

from crash.server_process import PATIENCE_SECONDS, ServerProcess

from bench.attackers.raw_frames import (
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    TRANSFER,
    attach_frame,
    begin_frame,
    credit_frame,
    disposition_frame,
    hello,
    more_frame,
    raw_frame,
    transfer_frame,
)
from twinbus.amqp.codec import decode
from twinbus.amqp.composite import encode_composite
from twinbus.amqp.framing import frame
from twinbus.amqp.types import Described
from twinbus.config.config import ROOT_KEY_NAME

__all__ = [
    "ATTACH",
    "CLOSE",
    "DETACH",
    "DISPOSITION",
    "END",
    "FLOW",
    "TRANSFER",
    "Closed",
    "Stranger",
    "attach_frame",
    "begin_frame",
    "transfer_frame",
]

_SIZE = struct.Struct(">I")


class Closed(Exception):
    """The bus has closed the connection."""


class Stranger:
    """A TCP connection to the bus."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._ids = itertools.count()

    @classmethod
    async def dial(cls, server: ServerProcess, *, receive_bytes: int = 0) -> Self:
        """Connect; `receive_bytes` bounds what the kernel takes in unread."""
        dialling = socket.socket()
        if receive_bytes:
            dialling.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        dialling.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(dialling, ("127.0.0.1", server.port))
        # A small limit: what the test does not read, nobody reads.
        return cls(*await asyncio.open_connection(sock=dialling, limit=65_536))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        self._writer.transport.abort()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    # --- saying ---------------------------------------------------------------

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def drain(self) -> None:
        """Wait until the kernel has taken most of what was written."""
        await self._writer.drain()

    def perform(self, value: object, channel: int = 0, payload: bytes = b"") -> None:
        """Send a performative."""
        self.write(frame(channel, encode_composite(value) + payload))

    def perform_raw(
        self, code: int, fields: list[object], channel: int = 0, payload: bytes = b""
    ) -> None:
        """Send a performative by its code and encodable fields."""
        self.write(raw_frame(code, fields, channel=channel, payload=payload))

    async def open(
        self,
        server: ServerProcess,
        key: str | None = None,
        key_name: str = ROOT_KEY_NAME,
    ) -> None:
        """SASL PLAIN (anonymous for an empty key), open, and one session."""
        key = server.key if key is None else key
        self.write(hello(key_name if key else "", key))
        await self.expect(BEGIN)

    def begin(self, channel: int = 0) -> None:
        self.write(begin_frame(channel))

    def attach(self, address: str, **options: Any) -> None:
        self.write(attach_frame(address, **options))

    def credit(self, count: int, handle: int = 0) -> None:
        """A receiver's credit, with a window to match."""
        self.write(credit_frame(count, handle))

    def transfer(self, payload: bytes, **options: Any) -> None:
        """One transfer frame of a delivery of its own."""
        self.write(transfer_frame(next(self._ids), payload, **options))

    def more(self, payload: bytes, *, handle: int = 0, last: bool = False) -> None:
        """A further frame of an unfinished delivery."""
        self.write(more_frame(payload, handle=handle, last=last))

    def dispose(self, first: int, last: int, state: int = 0x24) -> None:
        """A receiver's unsettled disposition."""
        self.write(disposition_frame(first, last, state))

    # --- hearing --------------------------------------------------------------

    async def read_frame(self) -> tuple[int, list[Any], bytes]:
        """Code, fields and payload of the next frame. Raises Closed."""
        while True:
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    start = await self._reader.readexactly(8)
                    if start[:4] == b"AMQP":
                        continue
                    size = _SIZE.unpack(start[:4])[0] - 8
                    body = await self._reader.readexactly(size)
            except (asyncio.IncompleteReadError, ConnectionError):
                raise Closed from None
            if not body:
                continue
            value, end = decode(body, 0)
            assert isinstance(value, Described)
            fields: Any = value.value
            return int(value.descriptor), list(fields), body[end:]  # type: ignore[call-overload]

    async def expect(self, code: int) -> list[Any]:
        """The fields of the next frame of this kind; others are passed over."""
        while True:
            found, fields, _ = await self.read_frame()
            if found == code:
                return fields

    async def expect_error(self, code: int) -> str:
        """The condition of the error in the next detach, end or close."""
        fields = await self.expect(code)
        described = next(item for item in fields if isinstance(item, Described))
        condition: Any = described.value
        return str(condition[0])

    async def expect_outcome(self) -> tuple[int, str]:
        """The next verdict on a transfer: code of the outcome, and condition."""
        fields = await self.expect(DISPOSITION)
        state: Any = fields[4]
        error = state.value[0].value[0] if state.value else ""
        return int(state.descriptor), str(error)

    async def read_until(self, mark: bytes) -> bytes:
        """Of what is no AMQP: everything through this mark."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self._reader.readuntil(mark)

    async def skip(self, size: int) -> None:
        """Read at least so many bytes, whatever they are."""
        while size > 0:
            read = await self._reader.read(1 << 20)
            if not read:
                raise Closed
            size -= len(read)

    async def expect_end(self) -> bytes:
        """Everything until the bus closes the connection."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            with contextlib.suppress(ConnectionError):
                return await self._reader.read(-1)
            return b""
