"""Messages of a backlog queue over the SDK: received, and sent again as they were."""

from typing import Any

from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage
from azure.servicebus._pyamqp._decode import decode_payload
from azure.servicebus._transport._pyamqp_transport import PyamqpTransport

from twinbus.amqp.codec import encode
from twinbus.amqp.messaging import Data, Message, decode_message, encode_message
from twinbus.amqp.types import Long, Symbol, Timestamp
from twinbus.pairing.detour import (
    KEY_ADDED,
    PARTITION_KEY,
    PATH,
    SCHEDULED,
    SESSION_ID,
)
from twinbus.pairing.sdk_syphon.messages import SdkMessage, read_received, restored
from twinbus.sdk_internals.messages import as_messages

NUMBER = 7


class Receiver:
    """What a received message asks its receiver for."""

    _amqp_transport = PyamqpTransport


def received(
    properties: dict[object, object],
    body: bytes = b"body",
    annotations: dict[object, object] | None = None,
) -> SdkMessage:
    """A message with these application properties, as the SDK gets it."""
    sent = Message(
        message_annotations={
            Symbol("x-opt-sequence-number"): Long(NUMBER),
            Symbol("x-opt-enqueued-time"): Timestamp(1_000),
            **(annotations or {}),
        },
        application_properties=properties,
        body=Data((body,)),
    )
    decoded = decode_payload(memoryview(encode_message(sent)))
    owner: Any = Receiver()
    message = ServiceBusReceivedMessage(decoded, receiver=owner)
    return read_received(message, is_deferred=False)


def after_restoring(message: SdkMessage) -> Message:
    """As it arrives at the primary."""
    [outgoing] = as_messages(restored(message, now=0))
    assert isinstance(outgoing, ServiceBusMessage)
    return decode_message(bytes(PyamqpTransport.encode_message(outgoing)))


def test_texts_stay_texts_and_what_is_none_stays_binary() -> None:
    message = received({PATH: "orders", "colour": "red", "sum": b"\xff\x00"})
    assert message.detour is not None
    properties = after_restoring(message).application_properties
    assert properties == {"colour": "red", "sum": b"\xff\x00"}
    assert encode(properties["sum"]) == encode(b"\xff\x00")


def test_what_no_client_can_say_is_poison() -> None:
    message = received({PATH: "orders", SCHEDULED: Timestamp(2**62)})
    assert message.fault is not None
    assert message.fault.reason == "InvalidProperty"


def test_a_session_comes_back() -> None:
    message = received({PATH: "orders", SESSION_ID: "s1"})
    found = after_restoring(message)
    assert found.properties is not None
    assert found.properties.group_id == "s1"
    assert found.application_properties is None


def test_a_partition_key_of_the_detour_is_removed() -> None:
    properties: dict[object, object] = {PATH: "orders", SESSION_ID: "s1"}
    own: dict[object, object] = {Symbol(PARTITION_KEY): "s1"}
    added = {**own, Symbol(KEY_ADDED): True}
    found = after_restoring(received(properties, annotations=own))
    assert (found.message_annotations or {})[PARTITION_KEY] == "s1"
    found = after_restoring(received(properties, annotations=added))
    assert not {PARTITION_KEY, KEY_ADDED} & set(found.message_annotations or {})


def test_number_and_time_are_those_of_the_backlog_queue() -> None:
    message = received({PATH: "orders"})
    assert (message.sequence_number, message.enqueued_at) == (NUMBER, 1_000)
