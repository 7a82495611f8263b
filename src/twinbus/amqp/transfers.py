"""Writes the transfer frames of one link.

The constant parts are built once: the head of a frame depends on the channel, the
handle and the length of the tag, which is usually the same for all tags of a link. A
message that fits into a frame needs one `pack`, and is not copied until all output is
joined for the socket.
"""

import struct
from typing import Final, final

from twinbus.amqp.encoder import encode_list, encode_uint
from twinbus.amqp.errors import LocalError
from twinbus.amqp.framing import AMQP_FRAME, FRAME_HEADER, HEADER_SIZE

# AMQP 1.0 part 2, 2.8.7.
MAX_TAG_SIZE: Final = 32

_TRANSFER: Final = b"\x00\x53\x14"
_NULL: Final = b"\x40"
_TRUE: Final = b"\x41"
_FALSE: Final = b"\x42"
# All eleven fields are written: Python's client up to 7.14 takes what follows the
# eleventh position for the payload. In whole messages those after `settled` are null.
_FIELD_COUNT: Final = 11
# Message format 0, settled, then nulls: the same for every whole message.
_SETTLED_TAIL: Final = b"\x43\x41" + 6 * _NULL
_UNSETTLED_TAIL: Final = b"\x43\x42" + 6 * _NULL


@final
class TransferWriter:
    def __init__(self, channel: int, handle: int) -> None:
        self._channel: int = channel
        self._handle: bytes = encode_uint(handle)
        # Tag length for which the attributes below were built.
        self._tag_size: int = -1
        self._head: struct.Struct = struct.Struct("")
        self._middle: bytes = b""
        self._overhead: int = 0

    def whole(
        self,
        pieces: list[bytes],
        delivery_id: int,
        tag: bytes,
        settled: bool,
        payload: bytes,
        max_frame_size: int,
    ) -> bool:
        """Append a message of format 0 without a state; False if it does not fit."""
        tag_size = len(tag)
        if tag_size != self._tag_size:
            self._prepare(tag_size)
        size = self._overhead + len(payload)
        if size > max_frame_size:
            return False
        pieces.append(self._head.pack(size, self._middle, delivery_id, 0xA0, tag_size))
        pieces.append(tag)
        pieces.append(_SETTLED_TAIL if settled else _UNSETTLED_TAIL)
        pieces.append(payload)
        return True

    def _prepare(self, tag_size: int) -> None:
        if tag_size > MAX_TAG_SIZE:
            raise LocalError(f"a delivery tag has {tag_size} bytes, 32 are allowed")
        # count, handle, delivery id, tag; the tail follows
        list_size = 1 + len(self._handle) + 5 + 2 + tag_size + len(_SETTLED_TAIL)
        self._middle = (
            bytes((2, AMQP_FRAME, self._channel >> 8, self._channel & 0xFF))
            + _TRANSFER
            + bytes((0xC0, list_size, _FIELD_COUNT))
            + self._handle
            + b"\x70"
        )
        self._head = struct.Struct(f">I{len(self._middle)}sIBB")
        self._overhead = HEADER_SIZE + len(_TRANSFER) + 2 + list_size
        self._tag_size = tag_size

    def frames(
        self,
        delivery_id: int,
        tag: bytes,
        settled: bool,
        payload: bytes,
        message_format: int,
        state: bytes | None,
        max_frame_size: int,
    ) -> list[bytes]:
        """The frames of a message of any size, format and state."""
        if len(tag) > MAX_TAG_SIZE:
            raise LocalError(f"a delivery tag has {len(tag)} bytes, 32 are allowed")
        fields = [
            self._handle,
            encode_uint(delivery_id),
            bytes((0xA0, len(tag))) + tag,
            encode_uint(message_format),
            _TRUE if settled else _FALSE,
            _TRUE,
            _NULL,
            _NULL if state is None else state,
            _NULL,
            _NULL,
            _NULL,
        ]
        # `more` has the same width for both values, so the size of the head is known.
        room = max_frame_size - HEADER_SIZE - len(self._performative(fields))
        if room <= 0:
            raise LocalError("a delivery state does not fit the peer's frames")
        fields[5] = _TRUE if len(payload) > room else _FALSE
        frames = [self._frame(self._performative(fields), payload[:room])]
        self._continue(frames, payload, room, max_frame_size)
        return frames

    def _continue(
        self, frames: list[bytes], payload: bytes, sent: int, max_frame_size: int
    ) -> None:
        """Append the frames after the first; they have only handle and `more`."""
        fields = [self._handle, *[_NULL] * (_FIELD_COUNT - 1)]
        fields[5] = _TRUE
        head = self._performative(fields)
        room = max_frame_size - HEADER_SIZE - len(head)
        while sent < len(payload):
            if len(payload) - sent <= room:
                fields[5] = _FALSE
                head = self._performative(fields)
            frames.append(self._frame(head, payload[sent : sent + room]))
            sent += room

    def _performative(self, fields: list[bytes]) -> bytes:
        return _TRANSFER + encode_list(fields)

    def _frame(self, head: bytes, part: bytes) -> bytes:
        size = HEADER_SIZE + len(head) + len(part)
        return FRAME_HEADER.pack(size, 2, AMQP_FRAME, self._channel) + head + part
