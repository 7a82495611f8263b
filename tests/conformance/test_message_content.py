"""SB-Q-15x to SB-Q-17x: bodies and properties are received as they were sent.

The SDK shows strings of application properties and annotations as bytes. What it cannot
express (an amqp-value of null or zero, every AMQP type) is in `tests/wire`.
"""

import itertools
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.amqp import (
    AmqpAnnotatedMessage,
    AmqpMessageBodyType,
    AmqpMessageHeader,
    AmqpMessageProperties,
)

from .sdk import receive, receive_one, text_of
from .setups import in_order

_numbers = itertools.count(1)
SOME_UUID = uuid.UUID("12345678-9abc-def0-1122-334455667788")


@pytest.fixture(scope="module")
def round_trip(sdk, bus):
    """Sends a message and gives what comes back, over the same two links each time.

    Opening a link takes the SDK half a second, far longer than all else here.
    """
    name = f"content-{next(_numbers)}"
    bus.create_queue(name, lock_duration=timedelta(minutes=5))
    sender, receiver = sdk.sender(name), sdk.receiver(name)

    def send_and_receive(message):
        sender.send_messages(message)
        received = receive_one(receiver)
        receiver.complete_message(received)
        return received

    return send_and_receive


def _send_and_lock(sdk, queue, message):
    sdk.sender(queue).send_messages(message)
    return receive_one(sdk.receiver(queue))


@pytest.mark.parametrize("body", ["text", "", "schön €", b"\x00\xff\x80", b"x" * 70000])
def test_data_body_comes_back(round_trip, body):
    """SB-Q-151 a data body: text, empty, not ASCII, binary, over one frame."""
    message = round_trip(ServiceBusMessage(body))
    sent = body if isinstance(body, bytes) else body.encode()
    assert b"".join(message.body) == sent
    assert message.body_type == AmqpMessageBodyType.DATA


def test_several_data_sections_come_back(round_trip):
    """SB-Q-152 a body of several data sections keeps its sections."""
    sent = AmqpAnnotatedMessage(data_body=[b"one", b"two", b"three"])
    message = round_trip(sent)
    assert list(message.body) == [b"one", b"two", b"three"]


def test_sequence_body_comes_back(round_trip):
    """SB-Q-153 a body of amqp-sequence sections keeps values and sections."""
    sent = AmqpAnnotatedMessage(sequence_body=[[1, True, "a"], [2.5, None, b"b"]])
    message = round_trip(sent)
    assert message.body_type == AmqpMessageBodyType.SEQUENCE
    assert list(message.body) == [[1, True, b"a"], [2.5, None, b"b"]]


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        ("text", b"text"),
        (42, 42),
        (2.5, 2.5),
        (True, True),
        (b"\x00\x01", b"\x00\x01"),
        (SOME_UUID, SOME_UUID),
        ([1, "two", [3]], [1, b"two", [3]]),
        ({"key": {"inner": 1}}, {b"key": {b"inner": 1}}),
    ],
)
def test_value_body_comes_back(round_trip, value, seen):
    """SB-Q-154 an amqp-value body of each kind keeps its value."""
    message = round_trip(AmqpAnnotatedMessage(value_body=value))
    assert message.body_type == AmqpMessageBodyType.VALUE
    assert message.body == seen


def test_message_without_body_comes_back(round_trip):
    """SB-Q-155 `body=None` is accepted; the SDK sends no body section at all."""
    message = round_trip(ServiceBusMessage(None, message_id="no body"))
    assert message.body is None
    assert message.message_id == "no body"


def test_all_settable_properties_come_back(round_trip):
    """SB-Q-156 every property that the SDK lets an application set is kept."""
    settings = {
        "message_id": "the id",
        "session_id": "just data here",
        "content_type": "application/json",
        "correlation_id": "the correlation",
        "subject": "the subject",
        "partition_key": "just data here",
        "to": "elsewhere",
        "reply_to": "answers",
        "reply_to_session_id": "the answer's session",
    }
    message = round_trip(ServiceBusMessage("x", **settings))
    assert {name: getattr(message, name) for name in settings} == settings


def test_properties_that_were_not_set_are_none(round_trip):
    """SB-Q-157 the bus invents no property; the message id is made by the SDK."""
    sent = ServiceBusMessage("x")
    message = round_trip(sent)
    assert message.message_id == sent.message_id
    for name in ("session_id", "content_type", "correlation_id", "subject"):
        assert getattr(message, name) is None
    for name in ("partition_key", "to", "reply_to", "time_to_live"):
        assert getattr(message, name) is None
    assert message.scheduled_enqueue_time_utc is None
    assert not message.application_properties


def test_message_without_properties_gets_an_id_and_no_other(round_trip):
    """SB-Q-168 a bare AMQP message has no id; the bus makes one, as the service."""
    message = round_trip(AmqpAnnotatedMessage(data_body=b"bare"))
    assert len(message.message_id) == 32
    for name in ("session_id", "content_type", "correlation_id", "subject"):
        assert getattr(message, name) is None
    assert text_of(message) == "bare"


def test_raw_amqp_properties_come_back(round_trip):
    """SB-Q-158 AMQP properties with no name in the SDK's message are kept too."""
    created = datetime(2024, 5, 1, tzinfo=UTC)
    properties = AmqpMessageProperties(
        user_id=b"somebody",
        content_encoding="gzip",
        creation_time=int(created.timestamp() * 1000),
        group_sequence=7,
        group_id="g",
    )
    sent = AmqpAnnotatedMessage(data_body=b"x", properties=properties)
    seen = round_trip(sent).raw_amqp_message.properties
    assert seen.user_id == b"somebody"
    assert seen.content_encoding == b"gzip"
    assert seen.creation_time == int(created.timestamp() * 1000)
    assert seen.group_sequence == 7


@pytest.mark.parametrize("message_id", [SOME_UUID, 12345678901, b"\x00\xff"])
def test_message_id_keeps_its_type(round_trip, message_id):
    """SB-Q-159 a message id of type uuid, ulong or binary comes back as that type."""
    properties = AmqpMessageProperties(message_id=message_id, correlation_id=message_id)
    sent = AmqpAnnotatedMessage(data_body=b"x", properties=properties)
    seen = round_trip(sent).raw_amqp_message.properties
    assert seen.message_id == message_id
    assert seen.correlation_id == message_id


def test_header_fields_come_back(round_trip):
    """SB-Q-160 durable and priority are kept; the count of deliveries is the bus's."""
    header = AmqpMessageHeader(durable=True, priority=7, delivery_count=9)
    sent = AmqpAnnotatedMessage(data_body=b"x", header=header)
    seen = round_trip(sent).raw_amqp_message.header
    assert (seen.durable, seen.priority) == (True, 7)
    assert seen.delivery_count == 0


def test_foreign_annotations_and_footer_come_back(round_trip):
    """SB-Q-161 annotations that the bus does not know are kept, and so is a footer."""
    sent = AmqpAnnotatedMessage(
        data_body=b"x", annotations={"x-opt-mine": "kept"}, footer={"check": "sum"}
    )
    raw = round_trip(sent).raw_amqp_message
    assert raw.annotations[b"x-opt-mine"] == b"kept"
    assert raw.footer == {b"check": b"sum"}


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        ("text", b"text"),
        ("", b""),
        (7, 7),
        (-2_000_000_000, -2_000_000_000),
        (2.5, 2.5),
        (True, True),
        (False, False),
        (None, None),
        (SOME_UUID, SOME_UUID),
        (datetime(2024, 5, 1, 12, 30, tzinfo=UTC), 1714566600000),
        ({"TYPE": "LONG", "VALUE": 2**40}, 2**40),
        ({"TYPE": "ULONG", "VALUE": 2**63}, 2**63),
        ({"TYPE": "BINARY", "VALUE": b"\x00\xff"}, b"\x00\xff"),
        ({"TYPE": "SYMBOL", "VALUE": "sym"}, b"sym"),
    ],
    ids=repr,
)
def test_application_property_comes_back(round_trip, value, seen):
    """SB-Q-162 an application property of each type that the SDK encodes is kept."""
    sent = ServiceBusMessage("x", application_properties={"key": value})
    assert round_trip(sent).application_properties == {b"key": seen}


def test_many_application_properties_come_back(round_trip):
    """SB-Q-163 a hundred application properties, names not ASCII included."""
    sent = {f"näme {n}": n for n in range(100)}
    message = round_trip(ServiceBusMessage("x", application_properties=sent))
    seen = {name.decode(): n for name, n in message.application_properties.items()}
    assert seen == sent


def test_enqueued_time_is_that_of_the_bus(round_trip, bus):
    """SB-Q-164 `enqueued_time_utc` is the bus's clock at the time of the send."""
    before = bus.now()
    message = round_trip(ServiceBusMessage("x"))
    # Times on the wire have whole milliseconds.
    slack = timedelta(milliseconds=1)
    assert before - slack <= message.enqueued_time_utc <= bus.now() + slack


def test_broker_properties_of_a_first_delivery(sdk, bus, queue):
    """SB-Q-165 what the bus sets on a first delivery: count 0, token, lock end."""
    message = _send_and_lock(sdk, queue, ServiceBusMessage("x"))
    assert message.delivery_count == 0
    assert message.sequence_number == 1
    assert isinstance(message.lock_token, uuid.UUID)
    assert bus.now() < message.locked_until_utc <= bus.now() + timedelta(minutes=5)
    assert message.dead_letter_reason is None
    assert message.state.name == "ACTIVE"


@in_order
def test_received_message_can_be_sent_on(sdk, queue, make_queue):
    """SB-Q-166 a received message is sent to another queue and arrives as new there."""
    other = make_queue()
    sdk.sender(other).send_messages(ServiceBusMessage("was there before"))
    sent = ServiceBusMessage("x", message_id="same", application_properties={"k": 1})
    first = _send_and_lock(sdk, queue, sent)
    sdk.sender(other).send_messages(first)
    _, second = receive(sdk.receiver(other), 2)
    assert (text_of(second), second.message_id) == ("x", "same")
    assert second.application_properties == {b"k": 1}
    assert (first.sequence_number, second.sequence_number) == (1, 2)
    assert second.lock_token != first.lock_token


def test_messages_of_a_batch_keep_their_different_shapes(sdk, queue):
    """SB-Q-167 one batch may mix bodies, headers and properties."""
    shapes = [
        AmqpAnnotatedMessage(value_body={"v": 1}),
        AmqpAnnotatedMessage(sequence_body=[[1, 2]]),
        AmqpAnnotatedMessage(data_body=b"d", header=AmqpMessageHeader(priority=1)),
        ServiceBusMessage("t", application_properties={"k": "v"}),
    ]
    sdk.sender(queue).send_messages(shapes)
    value, sequence, data, text = receive(sdk.receiver(queue), 4)
    assert value.body == {b"v": 1}
    assert list(sequence.body) == [[1, 2]]
    assert data.raw_amqp_message.header.priority == 1
    assert text.application_properties == {b"k": b"v"}
