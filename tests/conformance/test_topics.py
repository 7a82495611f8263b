"""SB-T-01xx: topics and their subscriptions: every subscription has its own copy.

The content of a subscription is read by peeking, since a message that was accepted is
already in all subscriptions. Rules have cases of their own.
"""

from datetime import timedelta

import pytest
from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusMessage,
    ServiceBusReceiveMode,
)
from azure.servicebus.exceptions import (
    MessagingEntityNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusError,
    SessionCannotBeLockedError,
)

from .sdk import receive, receive_one, send_by_session, text_of, texts_of
from .setups import everywhere, own_numbers

LONG_LOCK = timedelta(minutes=5)


@pytest.fixture
def topic(bus, make_topic):
    """A topic with the subscriptions `a` and `b`, which get everything."""
    name = make_topic()
    for subscription in ("a", "b"):
        bus.create_subscription(name, subscription, lock_duration=LONG_LOCK)
    return name


def _held(sdk, topic, subscription):
    """The texts of all messages of a subscription."""
    receiver = sdk.subscription_receiver(topic, subscription)
    return texts_of(receiver.peek_messages(100))


def _dead(sdk, topic, subscription):
    receiver = sdk.subscription_dead_letters(topic, subscription)
    return receiver.peek_messages(100)


def test_every_subscription_gets_the_message(sdk, topic):
    """SB-T-0101 one send, one copy in each subscription, all of it as it was sent."""
    sent = ServiceBusMessage(
        "x",
        message_id="id",
        subject="label",
        correlation_id="cor",
        content_type="text/plain",
        to="to",
        reply_to="reply",
        session_id="s",
        time_to_live=timedelta(hours=1),
        application_properties={"n": 1, "text": "t", "flag": True, "real": 1.5},
    )
    sdk.topic_sender(topic).send_messages(sent)
    for subscription in ("a", "b"):
        got = receive_one(sdk.subscription_receiver(topic, subscription))
        assert text_of(got) == "x"
        assert (got.message_id, got.subject) == ("id", "label")
        assert (got.correlation_id, got.content_type) == ("cor", "text/plain")
        assert (got.to, got.reply_to, got.session_id) == ("to", "reply", "s")
        assert got.time_to_live == timedelta(hours=1)
        assert got.application_properties == {
            **{b"n": 1, b"text": b"t"},
            **{b"flag": True, b"real": 1.5},
        }
        assert got.delivery_count == 0


def test_batch_goes_to_every_subscription_in_order(sdk, topic):
    """SB-T-0102 the messages of a batch stay in their order in each subscription."""
    sender = sdk.topic_sender(topic)
    batch = sender.create_message_batch()
    texts = [str(number) for number in range(50)]
    for text in texts:
        batch.add_message(ServiceBusMessage(text))
    sender.send_messages(batch)
    assert _held(sdk, topic, "a") == texts
    assert _held(sdk, topic, "b") == texts


def test_topic_without_subscriptions_takes_messages(sync_sdk, bus, make_topic):
    """SB-T-0103 nobody subscribed: accepted, and gone; who comes later gets none."""
    topic = make_topic()
    sender = sync_sdk.topic_sender(topic)
    sender.send_messages(ServiceBusMessage("early"))
    bus.create_subscription(topic, "late")
    sender.send_messages(ServiceBusMessage("in time"))
    assert _held(sync_sdk, topic, "late") == ["in time"]


@everywhere
def test_copies_are_settled_one_by_one(sdk, topic):
    """SB-T-0104 completing, deferring or dead-lettering a copy leaves the others."""
    sdk.topic_sender(topic).send_messages(
        [ServiceBusMessage(text) for text in ("done", "later", "bad", "stays")]
    )
    receiver = sdk.subscription_receiver(topic, "a")
    done, later, bad, stays = receive(receiver, 4)
    receiver.complete_message(done)
    receiver.defer_message(later)
    receiver.dead_letter_message(bad, reason="r", error_description="d")
    receiver.abandon_message(stays)
    assert _held(sdk, topic, "a") == ["later", "stays"]
    (dead,) = _dead(sdk, topic, "a")
    assert text_of(dead) == "bad"
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("r", "d")
    (deferred,) = receiver.receive_deferred_messages(later.sequence_number)
    receiver.complete_message(deferred)
    assert _held(sdk, topic, "b") == ["done", "later", "bad", "stays"]
    assert _dead(sdk, topic, "b") == []


def test_delivery_counts_of_copies_are_apart(sync_sdk, topic):
    """SB-T-0105 an abandoned copy counts; the copy of the other subscription not."""
    sync_sdk.topic_sender(topic).send_messages(ServiceBusMessage("x"))
    receiver = sync_sdk.subscription_receiver(topic, "a")
    receiver.abandon_message(receive_one(receiver))
    assert receive_one(receiver).delivery_count == 1
    other = sync_sdk.subscription_receiver(topic, "b")
    assert receive_one(other).delivery_count == 0


@everywhere
def test_max_delivery_count_of_a_subscription(sync_sdk, bus, make_topic):
    """SB-T-0106 each subscription dead-letters by its own MaxDeliveryCount."""
    topic = make_topic()
    bus.create_subscription(topic, "a", max_delivery_count=2)
    bus.create_subscription(topic, "b", max_delivery_count=3)
    sync_sdk.topic_sender(topic).send_messages(ServiceBusMessage("x"))
    for subscription in ("a", "b"):
        receiver = sync_sdk.subscription_receiver(topic, subscription)
        for _ in range(2):
            receiver.abandon_message(receive_one(receiver))
    (dead,) = _dead(sync_sdk, topic, "a")
    assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"
    assert _held(sync_sdk, topic, "a") == []
    assert _held(sync_sdk, topic, "b") == ["x"]


def test_dead_letter_of_a_subscription_is_received_and_completed(sdk, topic):
    """SB-T-0107 dead letters of a subscription are a queue like those of a queue."""
    sdk.topic_sender(topic).send_messages(ServiceBusMessage("x"))
    receiver = sdk.subscription_receiver(topic, "b")
    receiver.dead_letter_message(receive_one(receiver), reason="r")
    letters = sdk.subscription_dead_letters(topic, "b")
    letters.complete_message(receive_one(letters))
    assert _dead(sdk, topic, "b") == []


@own_numbers
def test_numbers_of_a_subscription_are_its_own(sync_sdk, bus, topic):
    """SB-T-0108 a subscription counts its messages from 1, whenever it was made."""
    sender = sync_sdk.topic_sender(topic)
    sender.send_messages([ServiceBusMessage("1"), ServiceBusMessage("2")])
    bus.create_subscription(topic, "late")
    sender.send_messages([ServiceBusMessage("3"), ServiceBusMessage("4")])
    numbers = {}
    for name in ("a", "late"):
        receiver = sync_sdk.subscription_receiver(topic, name)
        numbers[name] = [m.sequence_number for m in receiver.peek_messages(10)]
    assert numbers == {"a": [1, 2, 3, 4], "late": [1, 2]}


def test_receivers_of_a_subscription_compete(sync_sdk, topic):
    """SB-T-0109 two receivers of one subscription share it, nothing twice."""
    texts = {str(number) for number in range(20)}
    sync_sdk.topic_sender(topic).send_messages(
        [ServiceBusMessage(text) for text in texts]
    )
    receivers = [sync_sdk.subscription_receiver(topic, "a") for _ in range(2)]
    got = [text for r in receivers for text in texts_of(receive(r, 10))]
    assert len(got) == 20
    assert set(got) == texts


def test_receive_and_delete_from_a_subscription(sdk, topic):
    """SB-T-0110 receive-and-delete takes the copy of its subscription only."""
    sdk.topic_sender(topic).send_messages(ServiceBusMessage("x"))
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    receiver = sdk.subscription_receiver(topic, "a", receive_mode=mode)
    assert text_of(receive_one(receiver)) == "x"
    assert _held(sdk, topic, "a") == []
    assert _held(sdk, topic, "b") == ["x"]


def test_topic_cannot_be_received_from(sync_sdk, topic):
    """SB-T-0111 a receiver of the topic itself is refused."""
    with pytest.raises(ServiceBusError):
        sync_sdk.receiver(topic)


def test_subscription_cannot_be_sent_to(sync_sdk, topic):
    """SB-T-0112 a sender to a subscription is refused."""
    with pytest.raises(ServiceBusError):
        sync_sdk.sender(f"{topic}/Subscriptions/a")
    assert _held(sync_sdk, topic, "a") == []


@pytest.mark.parametrize("missing", ["topic", "subscription"])
def test_unknown_subscription_is_not_found(sdk, topic, missing):
    """SB-T-0113 of an unknown topic, or of a known one: entity not found."""
    path = ("nowhere", "a") if missing == "topic" else (topic, "nobody")
    with pytest.raises(ServiceBusAuthenticationError):
        sdk.subscription_receiver(*path)
    with pytest.raises(ServiceBusAuthenticationError):
        sdk.topic_sender("nowhere")


def test_names_of_topics_ignore_letter_case(sync_sdk, bus):
    """SB-T-0114 topic and subscription are found in any letter case."""
    bus.create_topic("News/World")
    bus.create_subscription("news/WORLD", "Daily")
    sync_sdk.topic_sender("NEWS/world").send_messages(ServiceBusMessage("x"))
    assert _held(sync_sdk, "news/world", "DAILY") == ["x"]


def test_deleted_subscription_is_gone_with_its_messages(sync_sdk, bus, topic):
    """SB-T-0115 its receiver is told, the others stay; made again it is empty."""
    sync_sdk.topic_sender(topic).send_messages(ServiceBusMessage("x"))
    receiver = sync_sdk.subscription_receiver(topic, "a")
    bus.delete_subscription(topic, "a")
    with pytest.raises(MessagingEntityNotFoundError):
        receiver.receive_messages(max_wait_time=5)
    with pytest.raises(ServiceBusAuthenticationError):
        sync_sdk.subscription_receiver(topic, "a")
    assert _held(sync_sdk, topic, "b") == ["x"]
    bus.create_subscription(topic, "a")
    assert _held(sync_sdk, topic, "a") == []
    sync_sdk.topic_sender(topic).send_messages(ServiceBusMessage("y"))
    assert _held(sync_sdk, topic, "a") == ["y"]


def test_deleted_topic_takes_its_subscriptions_along(sync_sdk, bus, topic):
    """SB-T-0116 senders and receivers are told; made again it has no subscription."""
    sender = sync_sdk.topic_sender(topic)
    sender.send_messages(ServiceBusMessage("x"))
    bus.delete_topic(topic)
    # An old sender of the SDK only notices that its link is gone.
    with pytest.raises(ServiceBusError):
        sender.send_messages(ServiceBusMessage("y"))
    with pytest.raises(ServiceBusAuthenticationError):
        sync_sdk.topic_sender(topic)
    bus.create_topic(topic)
    with pytest.raises(ServiceBusAuthenticationError):
        sync_sdk.subscription_receiver(topic, "a")


def test_sessions_of_a_subscription(sdk, bus, make_topic):
    """SB-T-0117 a subscription with sessions: by session, in order, with a state."""
    topic = make_topic()
    bus.create_subscription(topic, "s", requires_session=True, lock_duration=LONG_LOCK)
    bus.create_subscription(topic, "plain")
    messages = [
        ServiceBusMessage(f"{session}{number}", session_id=session)
        for number in range(3)
        for session in ("x", "y")
    ]
    send_by_session(sdk.topic_sender(topic), messages)
    receiver = sdk.subscription_receiver(topic, "s", session_id="y")
    assert texts_of(receive(receiver, 3)) == ["y0", "y1", "y2"]
    receiver.session.set_state(b"half way")
    assert receiver.session.get_state() == b"half way"
    with pytest.raises(SessionCannotBeLockedError):
        sdk.subscription_receiver(topic, "s", session_id="y")
    other = sdk.subscription_receiver(topic, "s", session_id=NEXT_AVAILABLE_SESSION)
    assert other.session.session_id == "x"
    assert len(_held(sdk, topic, "plain")) == 6


def test_message_without_session_goes_to_dead_letters(sync_sdk, bus, make_topic):
    """SB-T-0118 a subscription with sessions dead-letters what belongs to none."""
    topic = make_topic()
    bus.create_subscription(topic, "s", requires_session=True)
    bus.create_subscription(topic, "plain")
    sync_sdk.topic_sender(topic).send_messages(ServiceBusMessage("x"))
    (dead,) = _dead(sync_sdk, topic, "s")
    assert dead.dead_letter_reason == "Session ID is null."
    assert _held(sync_sdk, topic, "plain") == ["x"]


def test_twenty_subscriptions_of_one_topic(sync_sdk, bus, make_topic):
    """SB-T-0119 twenty subscriptions, ten messages: two hundred copies."""
    topic = make_topic()
    names = [f"s{number}" for number in range(20)]
    for name in names:
        bus.create_subscription(topic, name)
    texts = [str(number) for number in range(10)]
    sync_sdk.topic_sender(topic).send_messages(
        [ServiceBusMessage(text) for text in texts]
    )
    for name in ("s0", "s7", "s19"):
        assert _held(sync_sdk, topic, name) == texts


def test_lock_of_a_copy_can_be_renewed(sync_sdk, bus, make_topic):
    """SB-T-0120 a renewed lock outlasts the lock duration of its subscription."""
    topic = make_topic()
    bus.create_subscription(topic, "a", lock_duration=LONG_LOCK)
    sync_sdk.topic_sender(topic).send_messages(ServiceBusMessage("x"))
    receiver = sync_sdk.subscription_receiver(topic, "a")
    message = receive_one(receiver)
    bus.advance(200)
    receiver.renew_message_lock(message)
    bus.advance(200)
    receiver.complete_message(message)
    assert _held(sync_sdk, topic, "a") == []


def test_copies_share_one_stored_body(own_sync):
    """SB-T-0121 a large message for forty subscriptions is stored about once."""
    bus = own_sync.bus
    bus.create_topic("t")
    for number in range(40):
        bus.create_subscription("t", f"s{number}")
    folder = bus.ca_file.parent
    before = _stored_bytes(bus, folder)
    body = bytes(range(256)) * 800
    sender = own_sync.topic_sender("t")
    for _ in range(5):
        sender.send_messages(ServiceBusMessage(body))
    own_sync.close_handlers()
    assert _stored_bytes(bus, folder) - before < 2 * 5 * len(body)
    for number in (0, 39):
        receiver = own_sync.subscription_receiver("t", f"s{number}")
        for message in receive(receiver, 5):
            assert b"".join(message.body) == body
            receiver.complete_message(message)
    assert len(receive(own_sync.subscription_receiver("t", "s7"), 5)) == 5


def _stored_bytes(bus, folder):
    """The size of all files of the bus, while nothing is half written."""
    bus.stop()
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    bus.start()
    return size
