"""Messages from columns: each row becomes a message that a bus can read."""

import pytest

from twinbus.amqp.codec import encode
from twinbus.amqp.messaging import (
    AmqpValue,
    Data,
    Message,
    Properties,
    decode_message,
)
from twinbus.amqp.types import ULong
from twinbus.encoding.composing import (
    PROPERTY_INDEXES,
    MessageComposer,
    binary_values,
    string_values,
)
from twinbus.encoding.incoming import read_message


def test_without_columns_messages_are_empty() -> None:
    composer = MessageComposer(2)
    assert composer.messages() == [b"\x00\x53\x75\xa0\x00"] * 2
    assert MessageComposer(0).messages() == []


def test_sections_come_in_the_order_of_the_standard() -> None:
    composer = MessageComposer(1)
    composer.add_bodies([b"body"])
    composer.add_application_properties([b"k"], string_values([b"v"]), [(0, 1)])
    composer.add_text("subject", [b"s"])
    composer.add_send_ids([b"id"])
    composer.add_time_to_live([9], 0)
    [encoded] = composer.messages()
    assert read_message(encoded).raw == encoded
    message = decode_message(encoded)
    assert message.header is not None and message.header.ttl == 9
    assert message.message_annotations == {"x-opt-twinbus-send-id": b"id"}
    assert message.properties == Properties(subject="s")
    assert message.application_properties == {"k": "v"}
    assert message.body == Data((b"body",))


@pytest.mark.parametrize("size", [0, 1, 200, 240, 250, 254, 255, 256, 257, 70_000])
@pytest.mark.parametrize("name", [*PROPERTY_INDEXES, "partition_key"])
def test_texts_of_any_size(name: str, size: int) -> None:
    composer = MessageComposer(2)
    composer.add_text(name, [b"t" * size, None])
    first, second = map(decode_message, composer.messages())
    assert second == Message(body=Data((b"",)))
    found = first.properties
    if name == "partition_key":
        assert first.message_annotations == {"x-opt-partition-key": "t" * size}
        return
    assert found is not None
    names = {"session_id": "group_id", "reply_to_session_id": "reply_to_group_id"}
    assert getattr(found, names.get(name, name)) == "t" * size


@pytest.mark.parametrize("count", [1, 127, 128, 300])
def test_maps_of_any_size(count: int) -> None:
    keys = [f"{number}".encode() for number in range(count)]
    composer = MessageComposer(3)
    composer.add_application_properties(
        keys,
        string_values([None, *keys[1:]]),
        [(0, 0), (0, count), (count - 1, count)],
    )
    empty, whole, last = map(decode_message, composer.messages())
    assert empty.application_properties is None
    assert whole.application_properties == {
        str(number): None if number == 0 else str(number) for number in range(count)
    }
    assert last.application_properties is not None
    assert list(last.application_properties) == [str(count - 1)]


def test_some_rows_have_values_of_other_types() -> None:
    composer = MessageComposer(3)
    composer.add_text("message_id", [b"a", b"7", None], {1: encode(ULong(7))})
    composer.add_bodies([b"x", b"y", b"z"], {1: encode(5), 2: b""})
    first, second, third = map(decode_message, composer.messages())
    assert first.properties == Properties(message_id="a")
    assert first.body == Data((b"x",))
    assert second.properties == Properties(message_id=ULong(7))
    assert second.body == AmqpValue(5)
    assert (third.properties, third.body) == (None, None)


def test_values_are_encoded_column_by_column() -> None:
    assert string_values([b"a", None]) == [encode("a"), encode(None)]
    assert binary_values([b"a" * 300, None]) == [encode(b"a" * 300), encode(None)]
