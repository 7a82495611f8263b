"""Frames, and the list of bytes to write.

A frame has a size, a data offset, a type, a channel and a body (AMQP 1.0 part 2, 2.3).
A connection, its sessions and links share one Outbox: all output is appended to one
list and joined once, when the shell asks for it.
"""

import struct
from typing import Final, final

AMQP_FRAME: Final = 0
SASL_FRAME: Final = 1

# Every peer must accept this size before sizes are agreed (2.3.1).
MIN_MAX_FRAME_SIZE: Final = 512

HEADER_SIZE: Final = 8

# size, data offset, type, channel
FRAME_HEADER: Final = struct.Struct(">IBBH")

EMPTY_FRAME: Final = b"\x00\x00\x00\x08\x02\x00\x00\x00"


def frame(channel: int, body: bytes, kind: int = AMQP_FRAME) -> bytes:
    return FRAME_HEADER.pack(len(body) + HEADER_SIZE, 2, kind, channel) + body


@final
class Outbox:
    """The output, and the largest frame that the peer accepts."""

    def __init__(self) -> None:
        # Pieces of frames in the order of writing; the connection empties the list.
        self.pieces: list[bytes] = []
        # Always allowed; raised when the peer's open has arrived.
        self.max_frame_size: int = MIN_MAX_FRAME_SIZE

    def write(self, channel: int, body: bytes) -> None:
        self.pieces.append(frame(channel, body))

    def take(self) -> bytes:
        data = b"".join(self.pieces)
        self.pieces.clear()
        return data
