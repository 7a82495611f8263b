"""SB-P-01xx: pings and send ids, as a paired client on the SDK sends them."""

from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusQuotaExceededError

from .inspection import inside, limit_size
from .sdk import assert_nothing_to_receive, receive_one, text_of, texts_of
from .setups import own_size

PING = "application/vnd.ms-servicebus-ping"
SEND_ID = "x-opt-twinbus-send-id"


def ping():
    return ServiceBusMessage(b"", content_type=PING, time_to_live=timedelta(seconds=1))


def identified(text, send_id):
    message = ServiceBusMessage(text)
    message.raw_amqp_message.annotations = {SEND_ID: send_id}
    return message


def test_ping_is_accepted_and_nobody_gets_it(sdk, queue):
    """SB-P-0101 by a queue."""
    sender, receiver = sdk.sender(queue), sdk.receiver(queue)
    sender.send_messages(ping())
    assert receiver.peek_messages(10) == []
    assert_nothing_to_receive(receiver)
    sender.send_messages(ServiceBusMessage("x"))
    assert text_of(receive_one(receiver)) == "x"


def test_queue_with_sessions_accepts_it_without_one(sdk, make_queue):
    """SB-P-0102 nothing else gets in without a session id."""
    queue = make_queue(requires_session=True)
    sdk.sender(queue).send_messages(ping())
    assert sdk.session_ids(queue) == []


def test_topic_hands_it_to_no_subscription(sdk, bus, make_topic):
    """SB-P-0103 nor does it make dead letters."""
    topic = make_topic()
    bus.create_subscription(topic, "s")
    bus.create_subscription(topic, "sessions", requires_session=True)
    sdk.topic_sender(topic).send_messages(ping())
    assert sdk.subscription_receiver(topic, "s").peek_messages(10) == []
    assert sdk.subscription_dead_letters(topic, "sessions").peek_messages(10) == []


@own_size
@inside
def test_full_queue_refuses_it_until_there_is_room(sdk, bus, make_queue):
    """SB-P-0104 with the error that a message would get."""
    queue = make_queue()
    sender, receiver = sdk.sender(queue), sdk.receiver(queue)
    sender.send_messages(ServiceBusMessage("x" * 1000))
    limit_size(bus, queue, 1000)
    with pytest.raises(ServiceBusQuotaExceededError):
        sender.send_messages(ping())
    receiver.complete_message(receive_one(receiver))
    sender.send_messages(ping())


def test_batch_and_schedule_make_no_message_of_it(sdk, bus, queue):
    """SB-P-0105 what else is in the batch is sent."""
    sender = sdk.sender(queue)
    sender.send_messages([ping(), ServiceBusMessage("x"), ping()])
    due = bus.now() + timedelta(seconds=5)
    assert list(sender.schedule_messages(ping(), due)) == [0]
    bus.advance(6)
    assert texts_of(sdk.receiver(queue).peek_messages(10)) == ["x"]


@pytest.mark.parametrize("send_id", [b"\x00\xff id", "id"], ids=["binary", "text"])
def test_send_with_the_same_id_is_confirmed_and_dropped(sdk, queue, send_id):
    """SB-P-0106 in a batch and alone."""
    sender = sdk.sender(queue)
    sender.send_messages(identified("first", send_id))
    sender.send_messages(identified("copy", send_id))
    sender.send_messages([identified("copy", send_id), identified("other", b"2")])
    assert texts_of(sdk.receiver(queue).peek_messages(10)) == ["first", "other"]


def test_scheduled_send_with_the_same_id_has_no_number(sdk, bus, queue):
    """SB-P-0107 the first one is on the schedule, whatever its number was."""
    sender, due = sdk.sender(queue), bus.now() + timedelta(seconds=5)
    [number] = sender.schedule_messages(identified("first", b"1"), due)
    assert number > 0
    assert list(sender.schedule_messages(identified("copy", b"1"), due)) == [0]
    bus.advance(6)
    assert texts_of(sdk.receiver(queue).peek_messages(10)) == ["first"]


def test_properties_of_the_open_can_be_read(sdk, queue):
    """SB-P-0108 a paired client learns what the bus offers."""
    sender = sdk.sender(queue)
    inner = getattr(sender, "inner", sender)
    properties = inner._handler._connection._remote_properties
    assert properties[b"product"] == b"twinbus"
    assert b"send-id" in properties[b"twinbus:extensions"]
