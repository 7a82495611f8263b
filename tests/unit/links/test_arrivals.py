"""What an entity accepts: sizes, twinbus ids, and who may restore."""

import pytest

from twinbus.amqp.messaging import Data, Message, Properties, encode_message
from twinbus.amqp.types import Symbol
from twinbus.encoding.batch import BATCH_FORMAT
from twinbus.encoding.identity import restored_from, send_key
from twinbus.encoding.layout import IDENTIFIED, PING, RESTORED, SENT_ONCE
from twinbus.errors import ArgumentError, MessageSizeExceeded
from twinbus.limits import TRANSFER_HEADROOM_BYTES
from twinbus.links.arrivals import Arrivals
from twinbus.links.extensions import Extensions

from .world import BODY, NOW

LIMIT = 1_000


def message(size_bytes: int = 100, **own: object) -> bytes:
    """One of exactly that size, with annotations of our own."""
    annotations: dict[object, object] = {
        Symbol(f"x-opt-twinbus-{name.replace('_', '-')}"): value
        for name, value in own.items()
    }

    def made(length: int) -> bytes:
        body = Data((b"x" * length,))
        return encode_message(Message(message_annotations=annotations, body=body))

    # A body of less than 256 bytes has a shorter head.
    length = size_bytes - len(made(0))
    raw = made(length if length < 256 else length - 3)
    assert len(raw) == size_bytes
    return raw


def arrivals(headroom_bytes: int = 0, *, restores: bool = True) -> Arrivals:
    limit = LIMIT + headroom_bytes
    return Arrivals("orders", Extensions(), limit, headroom_bytes, lambda _: restores)


def test_marks_are_those_of_all_messages_read() -> None:
    reader = arrivals()
    batch = encode_message(
        Message(
            body=Data((BODY, message(send_id=b"1"), message(restored_from="1@g@s")))
        )
    )
    assert len(reader.read(batch, BATCH_FORMAT, NOW)) == 3
    assert reader.marks & IDENTIFIED == SENT_ONCE | RESTORED
    [plain] = reader.read(BODY, 0, NOW)
    assert reader.marks & (IDENTIFIED | PING) == 0
    assert plain.raw == BODY


def test_limit_is_that_of_the_entity() -> None:
    arrivals().read(message(LIMIT), 0, NOW)
    with pytest.raises(MessageSizeExceeded, match="larger than 1000 bytes") as refused:
        arrivals().read(message(LIMIT + 1), 0, NOW)
    assert refused.value.entity_path == "orders"


def test_envelope_of_a_batch_does_not_count() -> None:
    first, second = message(600), message(LIMIT - 600 - 2 * 8)
    properties = Properties(message_id="m" * 128, group_id="s" * 128)

    def batch(*raw: bytes) -> bytes:
        return encode_message(Message(properties=properties, body=Data(raw)))

    full = batch(first, second)
    assert LIMIT < len(full) <= arrivals().tolerated_bytes
    for reader in (arrivals(), Arrivals("orders", Extensions(is_strict=True), LIMIT)):
        found = reader.read(full, BATCH_FORMAT, NOW)
        assert [one.raw for one in found] == [first, second]
        with pytest.raises(MessageSizeExceeded):
            reader.read(batch(first, message(len(second) + 1)), BATCH_FORMAT, NOW)


def test_ids_have_head_room_and_a_transfer_queue_has_it_once() -> None:
    larger = message(LIMIT + TRANSFER_HEADROOM_BYTES, send_id=b"1")
    for reader in (arrivals(), arrivals(TRANSFER_HEADROOM_BYTES)):
        [found] = reader.read(larger, 0, NOW)
        assert send_key(found) == b"s1"
        with pytest.raises(MessageSizeExceeded):
            too_large = LIMIT + TRANSFER_HEADROOM_BYTES + 1
            reader.read(message(too_large, send_id=b"1"), 0, NOW)


def test_request_is_measured_before_it_is_read() -> None:
    larger = LIMIT + TRANSFER_HEADROOM_BYTES
    arrivals().read_one(message(larger, send_id=b"1"), NOW)
    for raw in (message(larger + 1, send_id=b"1"), message(LIMIT + 1)):
        with pytest.raises(MessageSizeExceeded, match="1000"):
            arrivals().read_one(raw, NOW)


def test_strict_bus_has_no_head_room_and_sees_no_ids() -> None:
    strict = Arrivals("orders", Extensions(is_strict=True), LIMIT)
    with pytest.raises(MessageSizeExceeded):
        strict.read(message(LIMIT + 1, send_id=b"1"), 0, NOW)
    strict.read(message(send_id=b"1", restored_from="bad"), 0, NOW)
    assert strict.marks & IDENTIFIED == 0


def test_who_may_not_restore_is_not_heard() -> None:
    reader = arrivals(restores=False)
    [found] = reader.read(message(restored_from="nonsense"), 0, NOW)
    assert (reader.marks & IDENTIFIED, restored_from(found)) == (0, None)
    [found] = reader.read(message(restored_from="1@g@s", send_id=b"1"), 0, NOW)
    assert (reader.marks & IDENTIFIED, restored_from(found)) == (SENT_ONCE, None)
    with pytest.raises(MessageSizeExceeded):
        reader.read(message(LIMIT + 1, restored_from="1@g@s"), 0, NOW)


def test_who_may_restore_must_say_it_well() -> None:
    arrivals().read(message(restored_from="1@g@s"), 0, NOW)
    with pytest.raises(ArgumentError, match="restored-from"):
        arrivals().read(message(restored_from="nonsense"), 0, NOW)


def test_without_being_told_nobody_may() -> None:
    reader = Arrivals("orders", Extensions(), LIMIT)
    reader.read(message(restored_from="1@g@s"), 0, NOW)
    assert reader.marks & IDENTIFIED == 0
