"""Frames and the outbox."""

from twinbus.amqp.framing import SASL_FRAME, Outbox, frame


def test_a_frame_has_its_size_offset_type_and_channel() -> None:
    assert frame(0x1234, b"body").hex() == "0000000c02001234" + b"body".hex()
    assert frame(0, b"", SASL_FRAME).hex() == "0000000802010000"


def test_the_outbox_is_joined_in_order_and_emptied() -> None:
    outbox = Outbox()
    outbox.write(1, b"a")
    outbox.pieces.append(b"raw")
    assert outbox.take() == frame(1, b"a") + b"raw"
    assert outbox.take() == b""
