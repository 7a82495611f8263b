"""A client that may say anything: bytes and frames by hand, nothing by itself.

It answers nothing, counts no credit and keeps no rule; what the bus says to it can be
read frame by frame. Bodies of frames are built with the codec, so that a test writes
only what it breaks.
"""

import asyncio
import contextlib
import itertools
import socket
import struct
from typing import Any, Self

from crash.server_process import PATIENCE_SECONDS, ServerProcess

from twinbus.amqp.codec import decode, encode
from twinbus.amqp.composite import encode_composite
from twinbus.amqp.framing import frame
from twinbus.amqp.handshake import AMQP_HEADER, SASL_HEADER
from twinbus.amqp.messaging import Source, Target
from twinbus.amqp.performatives import Attach, Begin, Open
from twinbus.amqp.sasl import SaslInit, sasl_frame
from twinbus.amqp.types import Described, UInt, ULong
from twinbus.config import ROOT_KEY_NAME

ATTACH, FLOW, TRANSFER, DISPOSITION = 0x12, 0x13, 0x14, 0x15
DETACH, END, CLOSE = 0x16, 0x17, 0x18

_SIZE = struct.Struct(">I")


class Closed(Exception):
    """The bus has closed the connection."""


def transfer_frame(
    delivery_id: int,
    payload: bytes,
    *,
    handle: int = 0,
    more: bool = False,
    settled: bool = False,
) -> bytes:
    """A delivery, or its first part, on channel 0."""
    tag = delivery_id.to_bytes(4, "big")
    fields = [UInt(handle), UInt(delivery_id), tag, UInt(0), settled, more]
    return frame(0, encode(Described(ULong(TRANSFER), fields)) + payload)


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
        body = encode(Described(ULong(code), fields))
        self.write(frame(channel, body + payload))

    async def open(self, server: ServerProcess, key: str | None = None) -> None:
        """SASL PLAIN (anonymous for an empty key), open, and one session."""
        key = server.key if key is None else key
        response = f"\0{ROOT_KEY_NAME}\0{key}".encode()
        self.write(SASL_HEADER)
        if key:
            init = SaslInit(mechanism="PLAIN", initial_response=response)
        else:
            init = SaslInit(mechanism="ANONYMOUS")
        self.write(sasl_frame(init) + AMQP_HEADER)
        self.perform(Open(container_id="stranger"))
        self.begin()
        await self.expect(0x11)

    def begin(self, channel: int = 0) -> None:
        self.perform(
            Begin(
                next_outgoing_id=0,
                incoming_window=0xFFFFFFFF,
                outgoing_window=0xFFFFFFFF,
            ),
            channel,
        )

    def attach(
        self,
        address: str,
        *,
        handle: int = 0,
        is_receiver: bool = False,
        name: str | None = None,
        channel: int = 0,
        settle_mode: int = 0,
    ) -> None:
        self.perform(
            Attach(
                name=name or f"link-{channel}-{handle}",
                handle=handle,
                role=is_receiver,
                snd_settle_mode=settle_mode,
                source=Source(address=address),
                target=Target(address=address),
                initial_delivery_count=None if is_receiver else 0,
            ),
            channel,
        )

    def credit(self, count: int, handle: int = 0) -> None:
        """A receiver's credit, with a window to match."""
        window = [UInt(0), UInt(0xFFFFFFFF), UInt(0), UInt(0xFFFFFFFF)]
        self.perform_raw(FLOW, [*window, UInt(handle), UInt(0), UInt(count)])

    def transfer(
        self,
        payload: bytes,
        *,
        handle: int = 0,
        more: bool = False,
        settled: bool = False,
    ) -> None:
        """One transfer frame of a delivery of its own."""
        self.write(
            transfer_frame(
                next(self._ids), payload, handle=handle, more=more, settled=settled
            )
        )

    def more(self, payload: bytes, *, handle: int = 0, last: bool = False) -> None:
        """A further frame of an unfinished delivery."""
        fields: list[object] = [UInt(handle), None, None, None, None, not last]
        self.perform_raw(TRANSFER, fields, payload=payload)

    def dispose(self, first: int, last: int, state: int = 0x24) -> None:
        """A receiver's unsettled disposition."""
        outcome = Described(ULong(state), [])
        fields = [True, UInt(first), UInt(last), False, outcome]
        self.perform_raw(DISPOSITION, fields)

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

    async def expect_end(self) -> bytes:
        """Everything until the bus closes the connection."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            with contextlib.suppress(ConnectionError):
                return await self._reader.read(-1)
            return b""
