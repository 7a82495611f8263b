"""SB-L-01xx: size quotas: of a queue with its dead letters, of a topic with all of its
subscriptions.

The smallest size in a description is a gigabyte. The cases lower the limit of the
running entity, so that a few messages fill it; the bus counts as usual.
"""

from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusQuotaExceededError

from .inspection import inside, limit_size
from .sdk import receive, receive_one, text_of
from .setups import own_size

pytestmark = [inside, own_size]

BODY = "x" * 10_000
LIMIT_BYTES = 50_000
FULL_COUNT = 4
"""Messages of BODY that fit, each with some bytes around it."""


@pytest.fixture
def small(bus, make_queue):
    """A queue with room for four messages."""
    queue = make_queue()
    limit_size(bus, queue, LIMIT_BYTES)
    return queue


@pytest.fixture
def small_topic(bus, make_topic):
    """A topic with room for four messages, and a subscription."""
    topic = make_topic()
    bus.create_subscription(topic, "s", lock_duration=timedelta(minutes=5))
    limit_size(bus, topic, LIMIT_BYTES)
    return topic


def _fill(sender):
    """Send until the bus refuses; returns how many were taken."""
    for count in range(20):
        try:
            sender.send_messages(ServiceBusMessage(BODY))
        except ServiceBusQuotaExceededError:
            return count
    raise AssertionError("the quota was never exceeded")


def test_full_queue_takes_nothing_more(sdk, bus, make_queue):
    """SB-L-0101 beyond its size a send raises `ServiceBusQuotaExceededError`, and what
    was refused is not there."""
    queue = make_queue()
    limit_size(bus, queue, LIMIT_BYTES)
    sender = sdk.sender(queue)
    assert _fill(sender) == FULL_COUNT
    with pytest.raises(ServiceBusQuotaExceededError, match=str(LIMIT_BYTES)) as error:
        sender.send_messages(ServiceBusMessage(BODY))
    assert queue in str(error.value)
    assert len(sdk.receiver(queue).peek_messages(50)) == FULL_COUNT


def test_completing_makes_room(sdk, bus, make_queue):
    """SB-L-0102 the same sender goes on once a message has been completed."""
    queue = make_queue()
    limit_size(bus, queue, LIMIT_BYTES)
    sender, receiver = sdk.sender(queue), sdk.receiver(queue)
    _fill(sender)
    for message in receive(receiver, 2):
        receiver.complete_message(message)
    assert _fill(sender) == 2


def test_dead_letters_count(sync_sdk, small):
    """SB-L-0103 dead-lettering makes no room; taking the dead letter does."""
    sender, receiver = sync_sdk.sender(small), sync_sdk.receiver(small)
    _fill(sender)
    receiver.dead_letter_message(receive_one(receiver))
    assert _fill(sender) == 0
    letters = sync_sdk.dead_letter_receiver(small)
    letters.complete_message(receive_one(letters))
    assert _fill(sender) == 1


def test_full_queue_can_still_dead_letter(sync_sdk, small):
    """SB-L-0104 a full queue dead-letters, defers and abandons as ever."""
    sender, receiver = sync_sdk.sender(small), sync_sdk.receiver(small)
    _fill(sender)
    first, second, third = receive(receiver, 3)
    receiver.dead_letter_message(first, reason="r" * 1000)
    receiver.defer_message(second)
    receiver.abandon_message(third)
    assert len(sync_sdk.dead_letter_receiver(small).peek_messages(5)) == 1
    assert len(sync_sdk.receiver(small).peek_messages(5)) == FULL_COUNT - 1


def test_scheduled_messages_count(sync_sdk, bus, small):
    """SB-L-0105 what is scheduled takes room; cancelling gives it back."""
    sender = sync_sdk.sender(small)
    due = bus.now() + timedelta(minutes=5)
    messages = [ServiceBusMessage(BODY) for _ in range(3)]
    numbers = sender.schedule_messages(messages, due)
    assert _fill(sender) == FULL_COUNT - 3
    with pytest.raises(ServiceBusQuotaExceededError):
        sender.schedule_messages(ServiceBusMessage(BODY), due)
    sender.cancel_scheduled_messages(numbers)
    assert _fill(sender) == 3


def test_batch_that_does_not_fit_is_refused_whole(sync_sdk, small):
    """SB-L-0106 of a batch that is too much, no message is taken."""
    sender = sync_sdk.sender(small)
    batch = sender.create_message_batch()
    for _ in range(6):
        batch.add_message(ServiceBusMessage(BODY))
    with pytest.raises(ServiceBusQuotaExceededError):
        sender.send_messages(batch)
    assert sync_sdk.receiver(small).peek_messages(50) == []


def test_expiry_makes_room(sync_sdk, bus, small):
    """SB-L-0107 expired messages take no room."""
    sender = sync_sdk.sender(small)
    for _ in range(FULL_COUNT):
        message = ServiceBusMessage(BODY, time_to_live=timedelta(seconds=10))
        sender.send_messages(message)
    bus.advance(120)
    assert _fill(sender) == FULL_COUNT


def test_topic_is_full_over_its_subscriptions(sdk, bus, make_topic):
    """SB-L-0111 what its subscriptions hold fills the topic."""
    topic = make_topic()
    bus.create_subscription(topic, "s", lock_duration=timedelta(minutes=5))
    limit_size(bus, topic, LIMIT_BYTES)
    sender = sdk.topic_sender(topic)
    assert _fill(sender) == FULL_COUNT
    receiver = sdk.subscription_receiver(topic, "s")
    receiver.complete_message(receive_one(receiver))
    assert _fill(sender) == 1


def test_every_subscription_counts(sync_sdk, bus, small_topic):
    """SB-L-0112 with two subscriptions, half as many fit."""
    bus.create_subscription(small_topic, "second")
    assert _fill(sync_sdk.topic_sender(small_topic)) == FULL_COUNT // 2


def test_dead_letters_of_subscriptions_count(sync_sdk, small_topic):
    """SB-L-0113 dead-lettering in a subscription makes no room in the topic."""
    sender = sync_sdk.topic_sender(small_topic)
    _fill(sender)
    receiver = sync_sdk.subscription_receiver(small_topic, "s")
    receiver.dead_letter_message(receive_one(receiver))
    assert _fill(sender) == 0
    letters = sync_sdk.subscription_dead_letters(small_topic, "s")
    letters.complete_message(receive_one(letters))
    assert _fill(sender) == 1


def test_deleting_a_subscription_makes_room(sync_sdk, bus, small_topic):
    """SB-L-0114 what goes with a subscription is free again."""
    bus.create_subscription(small_topic, "keeps")
    sender = sync_sdk.topic_sender(small_topic)
    assert _fill(sender) == 2
    bus.delete_subscription(small_topic, "s")
    assert _fill(sender) == 2


def test_forward_to_a_full_queue_makes_a_dead_letter(sync_sdk, bus, small, make_queue):
    """SB-L-0115 the source keeps it; when there is room, messages go on."""
    source = make_queue(forward_to=small)
    _fill(sync_sdk.sender(small))
    sync_sdk.sender(source).send_messages(ServiceBusMessage(BODY + "kept"))
    dead = receive_one(sync_sdk.dead_letter_receiver(source))
    assert text_of(dead) == BODY + "kept"
    assert dead.dead_letter_reason
    receiver = sync_sdk.receiver(small)
    for message in receive(receiver, FULL_COUNT):
        receiver.complete_message(message)
    sync_sdk.sender(source).send_messages(ServiceBusMessage("goes on"))
    assert text_of(receive_one(receiver)) == "goes on"


def test_sizes_are_known_after_a_restart(own_sync):
    """SB-L-0116 what was there before a restart counts after it."""
    bus = own_sync.bus
    bus.create_queue("q")
    bus.create_topic("t")
    bus.create_subscription("t", "s")
    for sender in (own_sync.sender("q"), own_sync.topic_sender("t")):
        for _ in range(3):
            sender.send_messages(ServiceBusMessage(BODY))
    receiver = own_sync.receiver("q")
    receiver.dead_letter_message(receive_one(receiver))
    own_sync.close_handlers()
    bus.restart()
    limit_size(bus, "q", LIMIT_BYTES)
    limit_size(bus, "t", LIMIT_BYTES)
    assert _fill(own_sync.sender("q")) == 1
    assert _fill(own_sync.topic_sender("t")) == 1
