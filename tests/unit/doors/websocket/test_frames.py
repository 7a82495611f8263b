"""Frames of WebSockets: the stream inside of them, however they are cut."""

import itertools
import os

import pytest
from websockets.frames import Frame, Opcode
from websockets.utils import apply_mask as slow_mask

from twinbus.doors.websocket import frames
from twinbus.doors.websocket.frames import (
    CLOSE,
    PING,
    PONG,
    PROTOCOL_ERROR,
    TOO_LARGE,
    UNSUPPORTED,
    BrokenFrame,
    FrameReader,
    binary_frames,
    close_frame,
    control_frame,
)
from twinbus.limits import WEBSOCKET_FRAME_BYTES


def sent(data: bytes, opcode: Opcode = Opcode.BINARY, *, is_last: bool = True) -> bytes:
    """A frame as clients send it, made by another implementation."""
    return Frame(opcode, data, is_last).serialize(mask=True)


def read_all(reader: FrameReader, data: bytes, piece: int) -> bytes:
    found = b""
    for start in range(0, len(data), piece):
        found += reader.read(data[start : start + piece])
        while reader.has_more:
            found += reader.read(b"")
    return found


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 7, 64, 1_000, 1 << 20])
def test_stream_is_the_same_however_the_socket_cuts_it(piece: int) -> None:
    contents = [os.urandom(size) for size in (0, 1, 125, 126, 127, 3, 4_000)]
    if piece >= 64:
        contents += [os.urandom(65_535), os.urandom(65_536), os.urandom(200_001)]
    data = b"".join(sent(content) for content in contents)
    assert read_all(FrameReader(), data, piece) == b"".join(contents)


def test_large_frame_is_given_on_before_it_is_complete() -> None:
    data = sent(b"x" * 100_000)
    reader = FrameReader()
    assert reader.read(data[:50_000]) == b"x" * (50_000 - 14)
    assert reader.read(data[50_000:]) == b"x" * (50_000 + 14)


def test_fragments_are_joined_with_a_ping_between_them() -> None:
    data = (
        sent(b"a", is_last=False)
        + sent(b"b", Opcode.CONT, is_last=False)
        + sent(b"now", Opcode.PING)
        + sent(b"c", Opcode.CONT)
        + sent(b"d")
    )
    for piece in (1, 4, 100):
        reader = FrameReader()
        assert read_all(reader, data, piece) == b"abcd"
        assert reader.controls == [(PING, b"now")]


def test_of_many_pings_only_the_last_is_kept() -> None:
    reader = FrameReader()
    data = b"".join(sent(bytes([n]), Opcode.PING) for n in range(100))
    reader.read(data + sent(b"", Opcode.PONG))
    assert reader.controls == [(PING, bytes([99]))]


def test_nothing_after_a_close_is_read() -> None:
    reader = FrameReader()
    assert reader.read(sent(b"a") + sent(b"\x03\xe8", Opcode.CLOSE) + b"junk!") == b"a"
    assert reader.controls == [(CLOSE, b"\x03\xe8")]
    assert reader.is_closed
    assert reader.read(b"more junk") == b""


def test_many_small_frames_are_taken_in_turns() -> None:
    reader = FrameReader()
    data = sent(b"") * 999 + sent(b"x") * 2_000
    assert reader.read(data) == b"x"
    assert reader.has_more
    assert reader.read(sent(b"y")) == b"x" * 1_000
    assert reader.has_more
    assert reader.read(b"") == b"x" * 999 + b"y"
    assert not reader.has_more


_MASK = b"\0\0\0\0"
_BROKEN = {
    "unmasked": (b"\x82\x01x", PROTOCOL_ERROR),
    "unmasked and empty": (b"\x82\x00", PROTOCOL_ERROR),
    "unmasked ping": (b"\x89\x00", PROTOCOL_ERROR),
    "reserved bit": (b"\xc2\x81" + _MASK + b"x", PROTOCOL_ERROR),
    "text": (b"\x81\x81" + _MASK + b"x", UNSUPPORTED),
    "opcode 3": (b"\x83\x80" + _MASK, PROTOCOL_ERROR),
    "opcode 11": (b"\x8b\x80" + _MASK, PROTOCOL_ERROR),
    "fragment of nothing": (b"\x80\x80" + _MASK, PROTOCOL_ERROR),
    "message in a message": (b"\x02\x80" + _MASK + b"\x82\x80", PROTOCOL_ERROR),
    "fragment of a ping": (b"\x09\x80" + _MASK, PROTOCOL_ERROR),
    "large ping": (b"\x89\xfe\x00\x7e" + _MASK, PROTOCOL_ERROR),
    "size of two bytes": (b"\x82\xfe\x00\x7d" + _MASK, PROTOCOL_ERROR),
    "size of eight bytes": (b"\x82\xff" + bytes(6) + b"\xff\xff", PROTOCOL_ERROR),
    "endless": (b"\x82\xff\xff" + bytes(7) + _MASK, TOO_LARGE),
    "close of one byte": (b"\x88\x81" + _MASK + b"x", PROTOCOL_ERROR),
    "close with a bad text": (b"\x88\x83" + _MASK + b"\x03\xe8\xff", PROTOCOL_ERROR),
}


@pytest.mark.parametrize("name", _BROKEN)
@pytest.mark.parametrize("piece", [1, 100])
def test_broken_frames_are_refused_with_their_code(name: str, piece: int) -> None:
    data, code = _BROKEN[name]
    with pytest.raises(BrokenFrame) as caught:
        read_all(FrameReader(), data + bytes(20), piece)
    assert caught.value.code == code
    assert str(caught.value).endswith(".")


def test_frame_of_the_largest_size_is_accepted() -> None:
    largest = WEBSOCKET_FRAME_BYTES.to_bytes(8, "big")
    assert FrameReader().read(b"\x82\xff" + largest + _MASK + b"abc") == b"abc"
    larger = (WEBSOCKET_FRAME_BYTES + 1).to_bytes(8, "big")
    with pytest.raises(BrokenFrame):
        FrameReader().read(b"\x82\xff" + larger + _MASK)


def test_slow_unmasking_gives_the_same() -> None:
    for size, shift in itertools.product((0, 1, 3, 4, 1_000), range(4)):
        data, mask = os.urandom(size + shift), os.urandom(4)
        view = memoryview(data)[shift:]
        assert frames.apply_mask(view, mask) == slow_mask(view, mask)


@pytest.mark.parametrize("size", [1, 125, 126, 32_768, 32_769, 65_536, 100_000])
def test_written_messages_have_at_most_32_kilobytes(size: int) -> None:
    data = os.urandom(size)
    left, found = binary_frames(data), b""
    while left:
        assert left[0] == 0x82
        length, start = left[1], 2
        if length == 126:
            length, start = int.from_bytes(left[2:4], "big"), 4
            assert length > 125
        assert length <= 32_768
        found += left[start : start + length]
        left = left[start + length :]
    assert found == data


def test_control_frames_are_written_unmasked() -> None:
    assert control_frame(PONG, b"now") == b"\x8a\x03now"
    assert close_frame(1000) == b"\x88\x02\x03\xe8"


def test_long_reason_of_a_close_is_cut_between_characters() -> None:
    written = close_frame(1002, "ä" * 100)
    assert len(written) <= 127
    assert written[4:].decode() == "ä" * 61
