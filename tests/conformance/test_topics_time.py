"""SB-T-04xx: time and topics: scheduled messages, time to live of subscriptions.

A scheduled message waits in its topic. When it is due, it goes to the subscriptions, by
the rules of that time. In a subscription, the shortest of three times to live applies:
the message's, the topic's and the subscription's.
"""

from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageState

from twinbus.rules.sql.rule_checks import check_rule, sql_filter

from .sdk import receive_one, text_of, texts_of


@pytest.fixture
def topic(bus, make_topic):
    """A topic with one subscription `s`."""
    name = make_topic()
    bus.create_subscription(name, "s", lock_duration=timedelta(minutes=5))
    return name


def _held(sdk, topic, subscription="s"):
    receiver = sdk.subscription_receiver(topic, subscription)
    return texts_of(receiver.peek_messages(50))


def _dead(sdk, topic, subscription="s"):
    return sdk.subscription_dead_letters(topic, subscription).peek_messages(50)


# --- scheduled --------------------------------------------------------------------


def test_scheduled_message_reaches_subscriptions_when_due(sdk, bus, topic):
    """SB-T-0401 nothing before its time; then it comes, enqueued at that time."""
    due = bus.now() + timedelta(seconds=30)
    sdk.topic_sender(topic).schedule_messages(ServiceBusMessage("x"), due)
    bus.advance(29)
    assert _held(sdk, topic) == []
    bus.advance(2)
    message = receive_one(sdk.subscription_receiver(topic, "s"))
    assert text_of(message) == "x"
    assert message.state == ServiceBusMessageState.ACTIVE
    assert timedelta() <= message.enqueued_time_utc - due <= timedelta(seconds=2)


def test_message_sent_with_a_time_is_scheduled(sync_sdk, bus, topic):
    """SB-T-0402 `scheduled_enqueue_time_utc` of a sent message means the same."""
    message = ServiceBusMessage("x")
    message.scheduled_enqueue_time_utc = bus.now() + timedelta(seconds=30)
    sync_sdk.topic_sender(topic).send_messages(message)
    assert _held(sync_sdk, topic) == []
    bus.advance(31)
    assert _held(sync_sdk, topic) == ["x"]


def test_cancelled_message_of_a_topic_never_comes(sdk, bus, topic):
    """SB-T-0403 cancelled by its number, it reaches no subscription."""
    sender = sdk.topic_sender(topic)
    due = bus.now() + timedelta(seconds=30)
    messages = [ServiceBusMessage("stays"), ServiceBusMessage("goes")]
    numbers = sender.schedule_messages(messages, due)
    sender.cancel_scheduled_messages(numbers[1])
    bus.advance(31)
    assert _held(sdk, topic) == ["stays"]


def test_scheduled_message_goes_to_who_is_subscribed_then(sync_sdk, bus, topic):
    """SB-T-0404 subscriptions and rules count as they are when it is due."""
    due = bus.now() + timedelta(seconds=30)
    message = ServiceBusMessage("x", application_properties={"n": 1})
    sync_sdk.topic_sender(topic).schedule_messages(message, due)
    bus.create_subscription(topic, "late")
    bus.create_subscription(
        topic, "two", [check_rule("r", sql_filter("n = 2"), None, 0)]
    )
    bus.delete_subscription(topic, "s")
    bus.advance(31)
    assert _held(sync_sdk, topic, "late") == ["x"]
    assert _held(sync_sdk, topic, "two") == []


# --- time to live -----------------------------------------------------------------


def test_subscription_limits_the_time_to_live(sync_sdk, bus, topic):
    """SB-T-0411 the default of a subscription ends its copies; others live on."""
    bus.create_subscription(
        topic, "short", default_message_time_to_live=timedelta(seconds=30)
    )
    sync_sdk.topic_sender(topic).send_messages(ServiceBusMessage("x"))
    bus.advance(31)
    assert _held(sync_sdk, topic, "short") == []
    assert _dead(sync_sdk, topic, "short") == []
    assert _held(sync_sdk, topic) == ["x"]


def test_topic_limits_the_time_to_live(sync_sdk, bus, make_topic):
    """SB-T-0412 the default of the topic holds in all of its subscriptions."""
    topic = make_topic(default_message_time_to_live=timedelta(seconds=30))
    bus.create_subscription(
        topic, "s", default_message_time_to_live=timedelta(minutes=10)
    )
    message = ServiceBusMessage("own", time_to_live=timedelta(hours=1))
    sync_sdk.topic_sender(topic).send_messages([ServiceBusMessage("none"), message])
    assert _held(sync_sdk, topic) == ["none", "own"]
    bus.advance(31)
    assert _held(sync_sdk, topic) == []


def test_time_to_live_of_the_message_may_be_shorter(sync_sdk, bus, make_topic):
    """SB-T-0413 the shortest of the three counts: here the message's own."""
    topic = make_topic(default_message_time_to_live=timedelta(minutes=20))
    bus.create_subscription(
        topic, "s", default_message_time_to_live=timedelta(minutes=10)
    )
    short = ServiceBusMessage("short", time_to_live=timedelta(seconds=20))
    sync_sdk.topic_sender(topic).send_messages([short, ServiceBusMessage("long")])
    bus.advance(21)
    assert _held(sync_sdk, topic) == ["long"]


def test_received_copy_says_when_it_expires(sync_sdk, bus, topic):
    """SB-T-0414 the copy shows the time to live that is in force for it."""
    bus.create_subscription(
        topic, "short", default_message_time_to_live=timedelta(seconds=30)
    )
    message = ServiceBusMessage("x", time_to_live=timedelta(minutes=10))
    sync_sdk.topic_sender(topic).send_messages(message)
    left = []
    for name in ("s", "short"):
        (got,) = sync_sdk.subscription_receiver(topic, name).peek_messages()
        assert got.expires_at_utc == got.enqueued_time_utc + got.time_to_live
        left.append(got.time_to_live)
    assert left == [timedelta(minutes=10), timedelta(seconds=30)]


def test_subscription_dead_letters_what_expires(sync_sdk, bus, topic):
    """SB-T-0415 with DeadLetteringOnMessageExpiration, and there it stays."""
    bus.create_subscription(topic, "d", dead_lettering_on_message_expiration=True)
    message = ServiceBusMessage("x", time_to_live=timedelta(seconds=20))
    sync_sdk.topic_sender(topic).send_messages(message)
    bus.advance(21)
    (dead,) = _dead(sync_sdk, topic, "d")
    assert dead.dead_letter_reason == "TTLExpiredException"
    assert dead.dead_letter_error_description
    assert _dead(sync_sdk, topic) == []
    bus.advance(300)
    assert texts_of(_dead(sync_sdk, topic, "d")) == ["x"]


def test_time_to_live_of_a_scheduled_message_begins_when_due(sync_sdk, bus, topic):
    """SB-T-0416 it lives from its activation on, not from its sending."""
    due = bus.now() + timedelta(seconds=40)
    message = ServiceBusMessage("x", time_to_live=timedelta(seconds=20))
    sync_sdk.topic_sender(topic).schedule_messages(message, due)
    bus.advance(41)
    assert _held(sync_sdk, topic) == ["x"]
    bus.advance(21)
    assert _held(sync_sdk, topic) == []


def test_locked_copy_expires_when_its_lock_ends(sync_sdk, bus, topic):
    """SB-T-0417 a locked message can still be completed after its time."""
    message = ServiceBusMessage("x", time_to_live=timedelta(seconds=20))
    sync_sdk.topic_sender(topic).send_messages(message)
    receiver = sync_sdk.subscription_receiver(topic, "s")
    locked = receive_one(receiver)
    bus.advance(60)
    receiver.complete_message(locked)
    assert _held(sync_sdk, topic) == []
