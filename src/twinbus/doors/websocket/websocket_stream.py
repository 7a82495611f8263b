"""The stream inside of a WebSocket: between a socket and the protocol of the stream.

To the socket it is the protocol, to the AMQP connection behind it the transport. So
that one is the same as without WebSockets, with its limits, deadlines, faults and
figures, and pays nothing for them.

It ends with the closing handshake, whoever begins: a close is answered, and an answer
is waited for, but not for long, and only for some connections at a time.
"""

import asyncio
import logging
from typing import Any, Final, cast

from twinbus.doors.arrived_at import HTTP_HOST
from twinbus.doors.websocket.frames import (
    CLOSE,
    NORMAL,
    PING,
    PONG,
    BrokenFrame,
    FrameReader,
    binary_frames,
    close_frame,
    control_frame,
)
from twinbus.owner.turns import Turns

_log = logging.getLogger(__name__)

_CLOSING_SECONDS: Final = 2.0
"""How long a peer may take to answer a close."""

_LINGERING: Final = 32
"""Connections that wait for that at a time: they have no place among the others, and a
crowd of strangers must not take the files that are reserved."""


class Lingering:
    """Connections of one server that wait for the answer to their close."""

    def __init__(self) -> None:
        self.count = 0


class WebSocketStream(asyncio.Protocol, asyncio.Transport):
    """One client's connection."""

    def __init__(
        self,
        behind: asyncio.Protocol,
        turns: Turns,
        lingering: Lingering,
        host: str = "",
    ) -> None:
        """`behind` speaks the protocol of the stream. `host`: that the client asked
        for when it was still HTTP."""
        super().__init__()
        self._behind = behind
        self._turns = turns
        self._lingering = lingering
        self._host = host
        self._reader = FrameReader()
        self._socket: asyncio.Transport | None = None
        self._is_writable = True
        # The protocol behind wants nothing more for now.
        self._is_held_back = False
        # The last ping, while the peer reads nothing.
        self._unanswered: bytes | None = None
        # We have sent a close. Broken: and do not look at what the peer sends.
        self._is_closing = False
        self._is_broken = False
        # The end of waiting for the answer to it.
        self._patience: asyncio.TimerHandle | None = None

    # --- protocol of the socket -----------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not of asyncio's class.
        self._socket = cast(asyncio.Transport, transport)
        self._behind.connection_made(self)

    def data_received(self, data: bytes) -> None:
        if self._is_broken:
            return
        try:
            payload = self._reader.read(data)
        except BrokenFrame as error:
            self._fail(error)
            return
        if payload and not self._is_closing:
            self._behind.data_received(payload)
        if self._reader.controls:
            self._on_controls()
        if self._reader.has_more:
            self._turns.wait(self._go_on)
            self._read_or_not()

    def _go_on(self) -> None:
        """More frames of an earlier read."""
        if self._reader.has_more and self._socket is not None:
            self.data_received(b"")
            self._read_or_not()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._socket = None
        self._stop_waiting()
        # As much as without WebSockets: bytes that were received are processed.
        while self._reader.has_more and not self._is_broken and not self._is_closing:
            self.data_received(b"")
        self._behind.connection_lost(error)

    def pause_writing(self) -> None:
        self._is_writable = False
        self._behind.pause_writing()

    def resume_writing(self) -> None:
        self._is_writable = True
        if self._unanswered is not None:
            ping, self._unanswered = self._unanswered, None
            self._pong(ping)
        self._behind.resume_writing()

    # --- control frames -------------------------------------------------------

    def _on_controls(self) -> None:
        controls, self._reader.controls = self._reader.controls, []
        for opcode, payload in controls:
            if opcode == PING:
                self._pong(payload)
            elif opcode == CLOSE:
                self._on_close(payload)

    def _pong(self, payload: bytes) -> None:
        if self._is_closing:
            return
        if self._is_writable:
            self._write(control_frame(PONG, payload))
        else:
            self._unanswered = payload

    def _on_close(self, payload: bytes) -> None:
        """The peer closes, or answers our close: the socket is closed by us."""
        if not self._is_closing:
            self._is_closing = True
            self._write(control_frame(CLOSE, payload[:2]))
        self._stop_waiting()
        if self._socket is not None:
            self._socket.close()

    def _fail(self, error: BrokenFrame) -> None:
        peer = self.get_extra_info("peername")
        _log.info("%s is disconnected: %s", peer, error)
        self._is_broken = True
        self._close(error.code, str(error))

    def _close(self, code: int, text: str = "") -> None:
        """Send the close, and wait for the answer."""
        socket = self._socket
        if self._is_closing or socket is None:
            return
        self._is_closing = True
        self._write(close_frame(code, text))
        if self._lingering.count >= _LINGERING or not self._is_writable:
            socket.close()
            return
        self._lingering.count += 1
        loop = asyncio.get_running_loop()
        self._patience = loop.call_later(_CLOSING_SECONDS, self.abort)
        self._read_or_not()

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
            self._lingering.count -= 1

    def _write(self, data: bytes) -> None:
        if self._socket is not None and not self._socket.is_closing():
            self._socket.write(data)

    # --- transport of the protocol behind it ----------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if data and not self._is_closing:
            self._write(binary_frames(bytes(data)))

    def close(self) -> None:
        self._close(NORMAL)

    def abort(self) -> None:
        self._is_closing = True
        self._stop_waiting()
        if self._socket is not None:
            self._socket.abort()

    def is_closing(self) -> bool:
        socket = self._socket
        return self._is_closing or socket is None or socket.is_closing()

    def pause_reading(self) -> None:
        self._is_held_back = True
        self._read_or_not()

    def resume_reading(self) -> None:
        self._is_held_back = False
        self._read_or_not()

    def _read_or_not(self) -> None:
        socket = self._socket
        if socket is None or socket.is_closing():
            return
        if (self._is_held_back or self._reader.has_more) and not self._is_closing:
            socket.pause_reading()
        else:
            socket.resume_reading()

    def get_write_buffer_size(self) -> int:
        return 0 if self._socket is None else self._socket.get_write_buffer_size()

    def set_write_buffer_limits(
        self, high: int | None = None, low: int | None = None
    ) -> None:
        if self._socket is not None:
            self._socket.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if self._socket is None:
            return default
        if name == HTTP_HOST:
            return self._host
        return self._socket.get_extra_info(name, default)
