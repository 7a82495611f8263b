"""SB-S-01xx: the status of entities: who may send, who may receive.

A topic may refuse messages. A subscription may refuse receivers, but still gets
messages. If the status forbids a link, it is detached at once.
"""

from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessagingEntityDisabledError, ServiceBusError

from .sdk import receive_one, text_of, texts_of

SENDING, RECEIVING = "sending", "receiving"


@pytest.mark.parametrize(
    ("status", "allowed"),
    [
        ("Active", {SENDING, RECEIVING}),
        ("Disabled", set()),
        ("SendDisabled", {RECEIVING}),
        ("ReceiveDisabled", {SENDING}),
    ],
)
def test_status_of_a_queue(sdk, bus, make_queue, status, allowed):
    """SB-S-0101 what the status forbids raises `MessagingEntityDisabledError`."""
    queue = make_queue()
    sdk.sender(queue).send_messages(ServiceBusMessage("x"))
    bus.update_queue(queue, status=status)
    found = set()
    for kind, attempt in (
        (SENDING, lambda: sdk.sender(queue)),
        (RECEIVING, lambda: receive_one(sdk.receiver(queue))),
    ):
        try:
            attempt()
            found.add(kind)
        except MessagingEntityDisabledError as error:
            assert queue in str(error)
    assert found == allowed


def test_links_of_a_queue_end_with_its_status(sdk, bus, make_queue):
    """SB-S-0102 open senders and receivers are detached when it is disabled."""
    queue = make_queue()
    sender, receiver = sdk.sender(queue), sdk.receiver(queue)
    sender.send_messages(ServiceBusMessage("x"))
    bus.update_queue(queue, status="Disabled")
    with pytest.raises(ServiceBusError):
        sender.send_messages(ServiceBusMessage("y"))
    with pytest.raises(ServiceBusError):
        receiver.receive_messages(max_wait_time=5)
    bus.update_queue(queue, status="Active")
    assert text_of(receive_one(sdk.receiver(queue))) == "x"
    assert texts_of(sdk.receiver(queue).peek_messages(5)) == ["x"]


def test_link_that_the_status_allows_goes_on(sync_sdk, bus, make_queue):
    """SB-S-0103 SendDisabled leaves receivers alone, ReceiveDisabled senders."""
    queue = make_queue()
    sender, receiver = sync_sdk.sender(queue), sync_sdk.receiver(queue)
    bus.update_queue(queue, status="ReceiveDisabled")
    sender.send_messages(ServiceBusMessage("x"))
    bus.update_queue(queue, status="Active")
    receiver = sync_sdk.receiver(queue)
    bus.update_queue(queue, status="SendDisabled")
    receiver.complete_message(receive_one(receiver))


@pytest.mark.parametrize("status", ["Disabled", "SendDisabled"])
def test_disabled_topic_takes_nothing(sync_sdk, bus, make_topic, status):
    """SB-S-0111 no sends; what subscriptions hold is still received."""
    topic = make_topic()
    bus.create_subscription(topic, "s")
    sync_sdk.topic_sender(topic).send_messages(ServiceBusMessage("x"))
    bus.update_topic(topic, status=status)
    with pytest.raises(MessagingEntityDisabledError):
        sync_sdk.topic_sender(topic)
    assert text_of(receive_one(sync_sdk.subscription_receiver(topic, "s"))) == "x"


@pytest.mark.parametrize("status", ["Disabled", "ReceiveDisabled"])
def test_disabled_subscription_still_gathers(sync_sdk, bus, make_topic, status):
    """SB-S-0112 no receives; what was sent meanwhile is there when it is active."""
    topic = make_topic()
    bus.create_subscription(topic, "s", status=status)
    with pytest.raises(MessagingEntityDisabledError):
        sync_sdk.subscription_receiver(topic, "s")
    sync_sdk.topic_sender(topic).send_messages(ServiceBusMessage("x"))
    bus.update_subscription(topic, "s", status="Active")
    assert text_of(receive_one(sync_sdk.subscription_receiver(topic, "s"))) == "x"


def test_schedule_to_a_disabled_queue_is_refused(sync_sdk, bus, make_queue):
    """SB-S-0113 an open sender cannot schedule either."""
    queue = make_queue()
    sender = sync_sdk.sender(queue)
    bus.update_queue(queue, status="SendDisabled")
    with pytest.raises(ServiceBusError):
        due = bus.now() + timedelta(minutes=1)
        sender.schedule_messages(ServiceBusMessage("x"), due)
    bus.update_queue(queue, status="Active")
    assert sync_sdk.receiver(queue).peek_messages(5) == []


def test_scheduled_message_comes_to_a_disabled_queue(sync_sdk, bus, make_queue):
    """SB-S-0114 what was accepted before is kept, and there when it is active."""
    queue = make_queue()
    due = bus.now() + timedelta(seconds=20)
    sync_sdk.sender(queue).schedule_messages(ServiceBusMessage("x"), due)
    bus.update_queue(queue, status="Disabled")
    bus.advance(30)
    bus.update_queue(queue, status="Active")
    assert text_of(receive_one(sync_sdk.receiver(queue))) == "x"
