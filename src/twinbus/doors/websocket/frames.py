"""The frames of RFC 6455, of a server: reads masked ones, writes unmasked ones.

Messages mean nothing here: what they hold is one stream of bytes. So payload is given
on as it arrives, and neither a frame nor a message is ever collected. Held are the
start of a frame's head, and a control frame, which has at most 125 bytes.

`websockets` unmasks, in C. Its parser, and that of wsproto, make several objects for
each frame; decision 0023 has the figures.
"""

from typing import Final

from twinbus.limits import WEBSOCKET_FRAME_BYTES

try:
    from websockets.speedups import apply_mask
except ImportError:
    # Where the package has no compiled part.
    from websockets.utils import apply_mask

_BINARY: Final = 0x82
"""The first byte of a binary message that is one frame: what every SDK sends."""

_FINAL: Final = 0x80
_RESERVED: Final = 0x70
_OPCODE: Final = 0x0F
_CONTROL: Final = 0x08
_MASKED: Final = 0x80

CONTINUATION: Final = 0x0
TEXT: Final = 0x1
BINARY: Final = 0x2
CLOSE: Final = 0x8
PING: Final = 0x9
PONG: Final = 0xA

NORMAL: Final = 1000
PROTOCOL_ERROR: Final = 1002
UNSUPPORTED: Final = 1003
POLICY: Final = 1008
TOO_LARGE: Final = 1009

_CONTROL_BYTES: Final = 125
_WRITTEN_BYTES: Final = 32 * 1024
"""Payload of one message that we write: clients of Go refuse larger ones, unless they
are told otherwise."""

_FRAMES_AT_A_TIME: Final = 1_000
"""Frames of one read that are taken before others have their turn: about a
millisecond. A read of empty frames has forty thousand."""


class BrokenFrame(Exception):
    """The peer breaks the rules; `code` is the reason that it is told."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class FrameReader:
    """Takes the stream out of the frames of one client."""

    def __init__(self) -> None:
        # Received, and not looked at yet.
        self._rest = b""
        # Payload of the present frame that is still to come, and its mask from there.
        self._left = 0
        self._mask = b""
        # The last data frame was not the last of its message.
        self._is_unfinished = False
        # Control frames that were read, oldest first; the stream answers them.
        self.controls: list[tuple[int, bytes]] = []
        # There are frames that wait for the next turn.
        self.has_more = False
        # A close was read: whatever follows means nothing.
        self.is_closed = False

    def read(self, data: bytes) -> bytes:
        """The payload in the next bytes from the socket. Raises BrokenFrame."""
        if self._rest:
            data, self._rest = self._rest + data, b""
        self.has_more = False
        end, frame_count = len(data), 0
        view = memoryview(data)
        parts: list[bytes] = []
        at = self._go_on(view, parts) if self._left else 0
        while end - at >= 2 and not self.is_closed:
            if frame_count == _FRAMES_AT_A_TIME:
                self.has_more = True
                break
            frame_count += 1
            after = self._read_frame(data, view, at, parts)
            if after == at:
                break
            at = after
        if at < end and not self.is_closed:
            self._rest = data[at:]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _go_on(self, view: memoryview, parts: list[bytes]) -> int:
        """More of a frame whose head was read before."""
        taken = min(self._left, len(view))
        parts.append(apply_mask(view[:taken], self._mask))
        self._remember(self._left - taken, self._mask, taken)
        return taken

    def _read_frame(
        self, data: bytes, view: memoryview, at: int, parts: list[bytes]
    ) -> int:
        """Where the next frame begins, or the same place if this one is incomplete."""
        first, second, end = data[at], data[at + 1], len(data)
        if first != _BINARY or self._is_unfinished:
            self._check_first(first, second)
        if not second & _MASKED:
            raise BrokenFrame(PROTOCOL_ERROR, "A client has to mask its frames.")
        size, start = second & 0x7F, at + 6
        if size > _CONTROL_BYTES:
            start = at + 8 if size == 126 else at + 14
            if end < start:
                return at
            size = _long_size(data, at, start)
        elif end < start:
            return at
        mask, stop = data[start - 4 : start], min(start + size, end)
        if first & _CONTROL:
            if end - start < size:
                return at
            self._on_control(first & _OPCODE, apply_mask(view[start:stop], mask))
            return stop
        self._is_unfinished = not first & _FINAL
        if stop > start:
            parts.append(apply_mask(view[start:stop], mask))
        self._remember(start + size - stop, mask, stop - start)
        return stop

    def _remember(self, left: int, mask: bytes, taken: int) -> None:
        self._left = left
        if left:
            turned = taken & 3
            self._mask = mask[turned:] + mask[:turned]

    def _check_first(self, first: int, second: int) -> None:
        """Of a frame that is not a whole message. Raises BrokenFrame."""
        opcode = first & _OPCODE
        if first & _RESERVED:
            raise BrokenFrame(PROTOCOL_ERROR, "No extension was agreed on.")
        if opcode in (CLOSE, PING, PONG):
            if not first & _FINAL or second & 0x7F > _CONTROL_BYTES:
                raise BrokenFrame(PROTOCOL_ERROR, "A control frame is one small frame.")
        elif opcode == TEXT:
            raise BrokenFrame(UNSUPPORTED, "AMQP is sent in binary messages.")
        elif opcode not in (CONTINUATION, BINARY):
            raise BrokenFrame(PROTOCOL_ERROR, f"There is no opcode {opcode}.")
        elif (opcode == CONTINUATION) is not self._is_unfinished:
            raise BrokenFrame(PROTOCOL_ERROR, "A fragment is out of place.")

    def _on_control(self, opcode: int, payload: bytes) -> None:
        if opcode == CLOSE:
            _check_close(payload)
            self.is_closed = True
        if opcode == PING and self.controls and self.controls[-1][0] == PING:
            # Only the last one has to be answered (RFC 6455 5.5.3).
            self.controls.pop()
        if opcode != PONG:
            self.controls.append((opcode, payload))


def _long_size(data: bytes, at: int, start: int) -> int:
    """The size of a frame that needs more than one byte for it. Raises BrokenFrame."""
    size = int.from_bytes(data[at + 2 : start - 4], "big")
    if size <= (_CONTROL_BYTES if start == at + 8 else 0xFFFF):
        raise BrokenFrame(PROTOCOL_ERROR, "The size of a frame is written too long.")
    if size > WEBSOCKET_FRAME_BYTES:
        raise BrokenFrame(
            TOO_LARGE, f"A frame may have {WEBSOCKET_FRAME_BYTES} bytes, not {size}."
        )
    return size


def _check_close(payload: bytes) -> None:
    """A reason is a code, and a text that may be missing. Raises BrokenFrame."""
    if len(payload) == 1:
        raise BrokenFrame(PROTOCOL_ERROR, "The code of a close has two bytes.")
    try:
        payload[2:].decode()
    except UnicodeDecodeError:
        raise BrokenFrame(PROTOCOL_ERROR, "The text of a close is UTF-8.") from None


def binary_frames(data: bytes) -> bytes:
    """The next bytes of the stream, as messages for a client."""
    size = len(data)
    if size <= _WRITTEN_BYTES:
        return _binary_head(size) + data
    view = memoryview(data)
    parts: list[bytes | memoryview] = []
    for start in range(0, size, _WRITTEN_BYTES):
        piece = view[start : start + _WRITTEN_BYTES]
        parts += (_binary_head(len(piece)), piece)
    return b"".join(parts)


def _binary_head(size: int) -> bytes:
    if size <= _CONTROL_BYTES:
        return bytes((_BINARY, size))
    return bytes((_BINARY, 126, size >> 8, size & 0xFF))


def control_frame(opcode: int, payload: bytes) -> bytes:
    return bytes((_FINAL | opcode, len(payload))) + payload


def close_frame(code: int, text: str = "") -> bytes:
    """What ends the stream, with a reason; the text may be cut."""
    reason = text.encode()[: _CONTROL_BYTES - 2].decode(errors="ignore").encode()
    return control_frame(CLOSE, code.to_bytes(2, "big") + reason)
