"""A message without an id gets one, and nothing else changes."""

from dataclasses import replace

import pytest

from twinbus.amqp.messaging import (
    AmqpValue,
    Header,
    Message,
    Properties,
    decode_message,
    encode_message,
)
from twinbus.amqp.types import Symbol
from twinbus.encoding.incoming import read_message
from twinbus.encoding.naming import name_message

MESSAGE_ID = b"0123456789abcdef0123456789abcdef"
BEFORE = {"header": Header(priority=7), "message_annotations": {Symbol("a"): 1}}


@pytest.mark.parametrize("before", [{}, BEFORE])
@pytest.mark.parametrize("application", [None, {"k": "v"}])
@pytest.mark.parametrize(
    "properties",
    [
        None,
        Properties(),
        Properties(subject="s"),
        Properties(user_id=b"u", reply_to_group_id="g"),
        Properties(subject="s" * 212),
        Properties(subject="s" * 213),
        Properties(subject="s" * 300),
    ],
)
def test_all_but_the_id_stays(properties, application, before) -> None:
    sent = Message(
        properties=properties,
        application_properties=application,
        body=AmqpValue("x"),
        **before,
    )
    message = read_message(encode_message(sent))
    assert message.lacks_id

    name_message(message, MESSAGE_ID)

    named = replace(properties or Properties(), message_id=MESSAGE_ID.decode())
    assert decode_message(message.raw) == replace(sent, properties=named)
    again = read_message(message.raw)
    assert (again.layout, again.lacks_id) == (message.layout, message.lacks_id)


def test_a_message_without_sections_can_be_named() -> None:
    message = read_message(b"")
    name_message(message, MESSAGE_ID)
    assert decode_message(message.raw).properties == Properties(
        message_id=MESSAGE_ID.decode()
    )


@pytest.mark.parametrize("message_id", ["", "m", b"m", 7])
def test_an_id_of_any_type_is_one(message_id: object) -> None:
    sent = Message(properties=Properties(message_id=message_id), body=AmqpValue("x"))
    assert not read_message(encode_message(sent)).lacks_id
