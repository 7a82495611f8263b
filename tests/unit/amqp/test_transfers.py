"""Transfer frames as they are written."""

import pytest

from twinbus.amqp.errors import LocalError
from twinbus.amqp.fastpath import TransferFields, decode_transfer
from twinbus.amqp.outcomes import ACCEPTED, Accepted
from twinbus.amqp.transfers import TransferWriter


def read(frame: bytes) -> tuple[TransferFields, bytes]:
    assert int.from_bytes(frame[:4]) == len(frame)
    assert frame[4:11] == b"\x02\x00\x01\x02\x00\x53\x14"
    fields = TransferFields()
    at = decode_transfer(frame, 11, len(frame), fields)
    return fields, frame[at:]


@pytest.mark.parametrize("handle", [0, 1, 256])
@pytest.mark.parametrize("tag", [b"", b"t", b"t" * 16, b"t" * 32])
@pytest.mark.parametrize("settled", [True, False])
def test_a_message_that_fits_is_one_frame(
    handle: int, tag: bytes, settled: bool
) -> None:
    pieces: list[bytes] = []
    writer = TransferWriter(0x0102, handle)
    assert writer.whole(pieces, 0xFFFFFFFF, tag, settled, b"payload", 512)
    fields, payload = read(b"".join(pieces))
    assert (fields.handle, fields.delivery_id) == (handle, 0xFFFFFFFF)
    assert (fields.delivery_tag, fields.message_format) == (tag, 0)
    assert (fields.settled, fields.more) == (settled, False)
    assert payload == b"payload"


def test_a_frame_is_never_larger_than_the_peer_takes() -> None:
    writer = TransferWriter(0x0102, 0)
    pieces: list[bytes] = []
    assert writer.whole(pieces, 0, b"tag", True, b"", 512)
    room = 512 - len(b"".join(pieces))
    assert writer.whole(pieces, 0, b"tag", True, b"x" * room, 512)
    assert not writer.whole(pieces, 0, b"tag", True, b"x" * (room + 1), 512)


@pytest.mark.parametrize("size", [0, 1, 400, 480, 481, 1000, 5000])
def test_a_message_of_any_size_comes_in_frames_that_fit(size: int) -> None:
    payload = bytes(range(256)) * 20
    writer = TransferWriter(0x0102, 3)
    frames = writer.frames(9, b"tag", False, payload[:size], 7, ACCEPTED, 512)
    read_back = [read(frame) for frame in frames]
    assert all(len(frame) <= 512 for frame in frames)
    assert b"".join(part for _, part in read_back) == payload[:size]
    assert [fields.more for fields, _ in read_back][-1] is False
    assert all(fields.more for fields, _ in read_back[:-1])
    first = read_back[0][0]
    assert (first.delivery_id, first.delivery_tag) == (9, b"tag")
    assert (first.message_format, first.state) == (7, Accepted())


def test_a_tag_longer_than_allowed_is_our_mistake() -> None:
    writer = TransferWriter(0, 0)
    with pytest.raises(LocalError):
        writer.whole([], 0, b"t" * 33, True, b"", 512)
    with pytest.raises(LocalError):
        writer.frames(0, b"t" * 33, True, b"", 0, None, 512)


def test_a_state_that_fills_the_frame_is_our_mistake() -> None:
    with pytest.raises(LocalError):
        TransferWriter(0, 0).frames(0, b"t", True, b"x", 0, b"s" * 512, 512)
