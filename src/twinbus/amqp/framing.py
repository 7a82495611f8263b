"""Frames and the list of bytes that waits to be written.

A frame is a size, a data offset, a type, a channel and a body (AMQP 1.0 part 2, 2.3).
The Outbox is shared by a connection and all that lives on it: everything that is sent
is appended to one list and joined once, when the shell asks for it.
"""

import struct
from typing import Final, final

AMQP_FRAME: Final = 0
SASL_FRAME: Final = 1

# Every peer must be able to take this much before the sizes are agreed (2.3.1).
MIN_MAX_FRAME_SIZE: Final = 512

HEADER_SIZE: Final = 8

# size, data offset, type, channel
FRAME_HEADER: Final = struct.Struct(">IBBH")

EMPTY_FRAME: Final = b"\x00\x00\x00\x08\x02\x00\x00\x00"


def frame(channel: int, body: bytes, kind: int = AMQP_FRAME) -> bytes:
    return FRAME_HEADER.pack(len(body) + HEADER_SIZE, 2, kind, channel) + body


@final
class Outbox:
    """What is to be written, and how large a frame the peer takes."""

    def __init__(self) -> None:
        # Pieces of frames in the order of writing; emptied by the connection.
        self.pieces: list[bytes] = []
        # The smallest size that is always allowed, until the peer's open says more.
        self.max_frame_size: int = MIN_MAX_FRAME_SIZE

    def write(self, channel: int, body: bytes) -> None:
        self.pieces.append(frame(channel, body))

    def take(self) -> bytes:
        data = b"".join(self.pieces)
        self.pieces.clear()
        return data
