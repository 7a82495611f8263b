"""SB-F-01xx: auto-forwarding: chains of queues, topics and subscriptions.

A message in an entity with `forward_to` moves to the target, at most four times. If the
target refuses it, it becomes a dead letter of the source; its sender was already told
that it was accepted.
"""

from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.exceptions import ServiceBusError

from twinbus.errors import MessagingEntityNotFound
from twinbus.errors import ServiceBusError as Refusal
from twinbus.rules.sql.rule_checks import check_rule, sql_action, sql_filter

from .sdk import eventually, receive, receive_one, text_of, texts_of
from .setups import in_order, own_numbers

HOPS = 4


@pytest.fixture
def forwarding(bus, make_queue):
    """A queue and another that forwards to it."""
    target = make_queue()
    return make_queue(forward_to=target), target


def _send(sdk, queue, *texts, **options):
    messages = [ServiceBusMessage(text, **options) for text in texts]
    sdk.sender(queue).send_messages(messages)


def _publish(sdk, topic, *texts, **options):
    messages = [ServiceBusMessage(text, **options) for text in texts]
    sdk.topic_sender(topic).send_messages(messages)


def _arrived(sdk, queue, count=1):
    """The texts of so many messages of a queue, which are left there."""
    receiver = sdk.receiver(queue)
    eventually(
        lambda: len(receiver.peek_messages(50, sequence_number=1)) >= count,
        f"{count} messages reach {queue}",
    )
    return texts_of(receiver.peek_messages(50, sequence_number=1))


def _dead(sdk, queue):
    """The one dead letter of a queue, once it is there."""
    return receive_one(sdk.dead_letter_receiver(queue))


# --- along the chain --------------------------------------------------------------


def test_message_is_forwarded(sdk, forwarding):
    """SB-F-0101 what is sent to the source is received from the target, unchanged."""
    source, target = forwarding
    _send(
        sdk,
        source,
        "x",
        message_id="m",
        subject="s",
        application_properties={"n": 1},
        time_to_live=timedelta(hours=1),
    )
    receiver = sdk.receiver(target)
    message = receive_one(receiver)
    assert text_of(message) == "x"
    assert (message.message_id, message.subject) == ("m", "s")
    assert message.application_properties == {b"n": 1}
    assert message.time_to_live == timedelta(hours=1)
    assert message.delivery_count == 0
    receiver.complete_message(message)


@in_order
def test_order_is_kept_on_the_way(sync_sdk, forwarding):
    """SB-F-0102 messages of one source arrive in the order of their sending."""
    source, target = forwarding
    texts = [str(number) for number in range(100)]
    for start in range(0, 100, 10):
        _send(sync_sdk, source, *texts[start : start + 10])
    assert texts_of(receive(sync_sdk.receiver(target), 100)) == texts


@own_numbers
def test_numbers_of_a_forwarded_message(sync_sdk, forwarding):
    """SB-F-0103 it has the target's number and remembers the first one."""
    source, target = forwarding
    _send(sync_sdk, target, "own")
    _send(sync_sdk, source, "1", "2")
    messages = receive(sync_sdk.receiver(target), 3)
    assert [m.sequence_number for m in messages] == [1, 2, 3]
    assert [m.enqueued_sequence_number for m in messages[1:]] == [1, 2]


def test_source_cannot_be_received_from(sync_sdk, forwarding):
    """SB-F-0104 a receiver of an entity that forwards is refused."""
    source, _ = forwarding
    with pytest.raises(ServiceBusError):
        receive_one(sync_sdk.receiver(source))


def test_dead_letters_of_a_source_can_be_received(sync_sdk, forwarding):
    """SB-F-0105 its dead letters are open, or nobody could look at them."""
    source, _ = forwarding
    assert sync_sdk.dead_letter_receiver(source).peek_messages() == []


def test_four_hops_are_allowed(sync_sdk, bus, make_queue):
    """SB-F-0106 five queues in a row: the message comes to the last."""
    last = queue = make_queue()
    for _ in range(HOPS):
        queue = make_queue(forward_to=queue)
    _send(sync_sdk, queue, "x")
    assert text_of(receive_one(sync_sdk.receiver(last))) == "x"


def test_fifth_hop_makes_a_dead_letter(sync_sdk, bus, make_queue):
    """SB-F-0107 after four hops it stays, as a dead letter with the reason."""
    last = queue = make_queue()
    chain = []
    for _ in range(HOPS + 1):
        queue = make_queue(forward_to=queue)
        chain.append(queue)
    _send(sync_sdk, queue, "x")
    dead = _dead(sync_sdk, chain[0])
    assert text_of(dead) == "x"
    assert dead.dead_letter_reason == "MaxTransferHopCountExceeded"
    assert sync_sdk.receiver(last).peek_messages() == []


def test_loop_ends_after_four_hops(sync_sdk, bus, make_queue):
    """SB-F-0108 queues that forward to each other do not do so for ever."""
    first = make_queue()
    second = make_queue(forward_to=first)
    bus.update_queue(first, forward_to=second)
    _send(sync_sdk, first, "x")
    assert _dead(sync_sdk, first).dead_letter_reason == "MaxTransferHopCountExceeded"


def test_messages_from_before_are_forwarded_too(sync_sdk, bus, make_queue):
    """SB-F-0109 when forwarding begins, what waits in the source goes on."""
    source, target = make_queue(), make_queue()
    _send(sync_sdk, source, "1", "2", "3")
    bus.update_queue(source, forward_to=target)
    assert texts_of(receive(sync_sdk.receiver(target), 3)) == ["1", "2", "3"]


def test_forwarding_can_end(sync_sdk, bus, forwarding):
    """SB-F-0110 without `forward_to` messages stay, and can be received."""
    source, target = forwarding
    bus.update_queue(source, forward_to="")
    _send(sync_sdk, source, "x")
    assert text_of(receive_one(sync_sdk.receiver(source))) == "x"
    assert sync_sdk.receiver(target).peek_messages() == []


def test_scheduled_message_is_forwarded_when_due(sync_sdk, bus, forwarding):
    """SB-F-0111 it waits at the source, not at the target."""
    source, target = forwarding
    due = bus.now() + timedelta(seconds=30)
    sync_sdk.sender(source).schedule_messages(ServiceBusMessage("x"), due)
    assert sync_sdk.receiver(target).peek_messages() == []
    bus.advance(31)
    assert _arrived(sync_sdk, target) == ["x"]


def test_source_that_does_not_exist_anywhere(bus, make_queue):
    """SB-F-0112 the target must exist when the source is made, or changed."""
    with pytest.raises(Refusal, match="nowhere") as refusal:
        make_queue(forward_to="nowhere")
    assert refusal.value.http_status in (400, 404)
    queue = make_queue()
    with pytest.raises(Refusal, match="nowhere"):
        bus.update_queue(queue, forward_to="nowhere")


def test_sessions_stay_where_they_are(sync_sdk, make_queue):
    """SB-F-0113 a queue with sessions may name a target, as in the service; its
    messages are not torn out of their sessions, and not lost."""
    target = make_queue()
    source = make_queue(forward_to=target, requires_session=True)
    _send(sync_sdk, source, "x", session_id="s")
    receiver = sync_sdk.receiver(source, session_id="s")
    assert text_of(receive_one(receiver)) == "x"
    assert sync_sdk.receiver(target).peek_messages() == []


def test_queue_that_forwards_to_itself(sync_sdk, bus, make_queue):
    """SB-F-0114 the shortest loop of all ends after four hops, too."""
    queue = make_queue()
    bus.update_queue(queue, forward_to=queue)
    _send(sync_sdk, queue, "x")
    assert _dead(sync_sdk, queue).dead_letter_reason == "MaxTransferHopCountExceeded"


# --- topics and subscriptions -----------------------------------------------------


def test_subscription_forwards_to_a_queue(sdk, bus, make_queue, make_topic):
    """SB-F-0121 each subscription sends its copies its own way."""
    topic, target = make_topic(), make_queue()
    bus.create_subscription(topic, "forwards", forward_to=target)
    bus.create_subscription(topic, "keeps")
    _publish(sdk, topic, "1", "2")
    assert texts_of(receive(sdk.receiver(target), 2)) == ["1", "2"]
    kept = sdk.subscription_receiver(topic, "keeps").peek_messages(5)
    assert texts_of(kept) == ["1", "2"]


@in_order
def test_queue_forwards_to_a_topic(sync_sdk, bus, make_queue, make_topic):
    """SB-F-0122 the topic distributes what is forwarded to it, by its rules."""
    topic = make_topic()
    bus.create_subscription(topic, "all")
    two = check_rule("two", sql_filter("n = 2"), None, 0)
    bus.create_subscription(topic, "two", [two])
    source = make_queue(forward_to=topic)
    _send(sync_sdk, source, "1", application_properties={"n": 1})
    _send(sync_sdk, source, "2", application_properties={"n": 2})
    receiver = sync_sdk.subscription_receiver(topic, "all")
    assert texts_of(receive(receiver, 2)) == ["1", "2"]
    receiver = sync_sdk.subscription_receiver(topic, "two")
    assert texts_of(receive(receiver, 1)) == ["2"]


def test_topics_of_two_levels(sync_sdk, bus, make_queue, make_topic):
    """SB-F-0123 topic, subscription, topic, subscription, queue: and actions in it."""
    lower, upper, target = make_topic(), make_topic(), make_queue()
    rule = check_rule("r", sql_filter("1 = 1"), sql_action("SET seen = 'upper'"), 0)
    bus.create_subscription(upper, "down", [rule], forward_to=lower)
    seen = check_rule("seen", sql_filter("seen = 'upper'"), None, 0)
    bus.create_subscription(lower, "down", [seen], forward_to=target)
    _publish(sync_sdk, lower, "not seen")
    _publish(sync_sdk, upper, "x")
    message = receive_one(sync_sdk.receiver(target))
    assert text_of(message) == "x"
    assert message.application_properties[b"seen"] == b"upper"


def test_many_subscriptions_forward_to_one_queue(sync_sdk, bus, make_queue, make_topic):
    """SB-F-0124 each subscription's copy arrives: nothing is lost or merged."""
    topic, target = make_topic(), make_queue()
    for number in range(5):
        bus.create_subscription(topic, f"s{number}", forward_to=target)
    _publish(sync_sdk, topic, "x", "y")
    assert sorted(texts_of(receive(sync_sdk.receiver(target), 10))) == (
        ["x"] * 5 + ["y"] * 5
    )


# --- targets that cannot take the message -----------------------------------------


def test_target_that_is_disabled(sync_sdk, bus, forwarding):
    """SB-F-0131 the source keeps the message as a dead letter; later ones go on."""
    source, target = forwarding
    bus.update_queue(target, status="Disabled")
    _send(sync_sdk, source, "kept")
    dead = _dead(sync_sdk, source)
    assert text_of(dead) == "kept"
    assert dead.dead_letter_reason
    bus.update_queue(target, status="Active")
    _send(sync_sdk, source, "goes on")
    assert text_of(receive_one(sync_sdk.receiver(target))) == "goes on"


def test_target_that_is_send_disabled(sync_sdk, bus, forwarding):
    """SB-F-0132 a target that takes no sends takes no forwarded messages."""
    source, target = forwarding
    bus.update_queue(target, status="SendDisabled")
    _send(sync_sdk, source, "kept")
    assert text_of(_dead(sync_sdk, source)) == "kept"


@in_order
def test_target_that_is_receive_disabled_takes_messages(sync_sdk, bus, forwarding):
    """SB-F-0133 they can be received when it is active again."""
    source, target = forwarding
    bus.update_queue(target, status="ReceiveDisabled")
    _send(sync_sdk, source, "x")
    # The second says that the first went the same way before it.
    bus.update_queue(target, status="Active")
    _send(sync_sdk, source, "y")
    assert texts_of(receive(sync_sdk.receiver(target), 2)) == ["x", "y"]


def test_target_that_was_deleted(sync_sdk, bus, forwarding):
    """SB-F-0134 the source dead-letters; the target made again gets what follows."""
    source, target = forwarding
    bus.delete_queue(target)
    _send(sync_sdk, source, "kept")
    assert text_of(_dead(sync_sdk, source)) == "kept"
    bus.create_queue(target)
    _send(sync_sdk, source, "goes on")
    assert text_of(receive_one(sync_sdk.receiver(target))) == "goes on"


def test_target_with_sessions(sync_sdk, bus, make_queue):
    """SB-F-0135 messages of a session arrive in it; others are dead letters."""
    target = make_queue(requires_session=True)
    source = make_queue(forward_to=target)
    _send(sync_sdk, source, "x", session_id="s")
    _send(sync_sdk, source, "none")
    receiver = sync_sdk.receiver(target, session_id="s")
    assert text_of(receive_one(receiver)) == "x"
    dead = _dead(sync_sdk, source)
    assert text_of(dead) == "none"
    assert dead.dead_letter_reason == "Session ID is null."


def test_subscription_whose_target_is_disabled(sync_sdk, bus, make_queue, make_topic):
    """SB-F-0137 a subscription keeps what it cannot forward, too."""
    topic, target = make_topic(), make_queue()
    bus.create_subscription(topic, "s", forward_to=target)
    bus.update_queue(target, status="Disabled")
    _publish(sync_sdk, topic, "kept")
    dead = receive_one(sync_sdk.subscription_dead_letters(topic, "s"))
    assert text_of(dead) == "kept"


def test_topic_that_is_disabled(sync_sdk, bus, make_queue, make_topic):
    """SB-F-0138 a topic that takes no messages is no target either."""
    topic = make_topic()
    bus.create_subscription(topic, "s")
    source = make_queue(forward_to=topic)
    bus.update_topic(topic, status="Disabled")
    _send(sync_sdk, source, "kept")
    assert text_of(_dead(sync_sdk, source)) == "kept"
    assert sync_sdk.subscription_receiver(topic, "s").peek_messages() == []


def test_deferred_messages_are_not_forwarded(sync_sdk, bus, make_queue):
    """SB-F-0139 what was deferred before stays deferred at the source."""
    source, target = make_queue(), make_queue()
    _send(sync_sdk, source, "deferred", "active")
    receiver = sync_sdk.receiver(source)
    deferred, active = receive(receiver, 2)
    receiver.defer_message(deferred)
    receiver.abandon_message(active)
    bus.update_queue(source, forward_to=target)
    assert texts_of(receive(sync_sdk.receiver(target), 1)) == ["active"]
    bus.update_queue(source, forward_to="")
    receiver = sync_sdk.receiver(source)
    (again,) = receiver.receive_deferred_messages(deferred.sequence_number)
    assert text_of(again) == "deferred"


# --- dead letters that are forwarded ----------------------------------------------


@pytest.fixture
def mourned(make_queue):
    """A queue, and another to which its dead letters go."""
    letters = make_queue()
    return make_queue(forward_dead_lettered_messages_to=letters), letters


def test_dead_letters_are_forwarded(sdk, mourned):
    """SB-F-0141 they come with reason, description and the name of their source."""
    queue, letters = mourned
    _send(sdk, queue, "x")
    receiver = sdk.receiver(queue)
    receiver.dead_letter_message(
        receive_one(receiver), reason="r", error_description="d"
    )
    dead = receive_one(sdk.receiver(letters))
    assert text_of(dead) == "x"
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("r", "d")
    assert dead.dead_letter_source == queue
    assert sdk.dead_letter_receiver(letters).peek_messages() == []


@in_order
def test_expired_messages_are_forwarded_as_dead_letters(sync_sdk, bus, make_queue):
    """SB-F-0142 expiry and the delivery limit lead there as well."""
    letters = make_queue()
    queue = make_queue(
        forward_dead_lettered_messages_to=letters,
        dead_lettering_on_message_expiration=True,
        max_delivery_count=1,
    )
    _send(sync_sdk, queue, "expired", time_to_live=timedelta(seconds=10))
    bus.advance(11)
    _send(sync_sdk, queue, "failed")
    receiver = sync_sdk.receiver(queue)
    receiver.abandon_message(receive_one(receiver))
    reasons = [m.dead_letter_reason for m in receive(sync_sdk.receiver(letters), 2)]
    assert reasons == ["TTLExpiredException", "MaxDeliveryCountExceeded"]


def test_forwarded_dead_letter_does_not_expire_at_once(sync_sdk, bus, make_queue):
    """SB-F-0143 in its new place it can be received though its time had passed."""
    letters = make_queue()
    queue = make_queue(
        forward_dead_lettered_messages_to=letters,
        dead_lettering_on_message_expiration=True,
    )
    _send(sync_sdk, queue, "x", time_to_live=timedelta(seconds=20))
    bus.advance(21)
    assert text_of(receive_one(sync_sdk.receiver(letters))) == "x"


def test_dead_letters_of_a_subscription_are_forwarded(
    sync_sdk, bus, make_queue, make_topic
):
    """SB-F-0144 to a queue, with the subscription as their source."""
    topic, letters = make_topic(), make_queue()
    bus.create_subscription(topic, "s", forward_dead_lettered_messages_to=letters)
    _publish(sync_sdk, topic, "x")
    receiver = sync_sdk.subscription_receiver(topic, "s")
    receiver.dead_letter_message(receive_one(receiver), reason="r")
    dead = receive_one(sync_sdk.receiver(letters))
    assert dead.dead_letter_reason == "r"
    assert topic in dead.dead_letter_source
    assert dead.dead_letter_source.lower().endswith("subscriptions/s")


def test_dead_letters_to_a_topic(sync_sdk, bus, make_queue, make_topic):
    """SB-F-0145 a topic may be the place for dead letters, and distributes them."""
    topic = make_topic()
    bus.create_subscription(topic, "s")
    queue = make_queue(forward_dead_lettered_messages_to=topic)
    _send(sync_sdk, queue, "x")
    receiver = sync_sdk.receiver(queue)
    receiver.dead_letter_message(receive_one(receiver), reason="r")
    dead = receive_one(sync_sdk.subscription_receiver(topic, "s"))
    assert (text_of(dead), dead.dead_letter_reason) == ("x", "r")


def test_forward_that_fails_leads_to_forwarded_dead_letters(sync_sdk, bus, make_queue):
    """SB-F-0146 with both settings: what cannot go on goes where dead letters go."""
    target, letters = make_queue(), make_queue()
    source = make_queue(forward_to=target, forward_dead_lettered_messages_to=letters)
    bus.update_queue(target, status="Disabled")
    _send(sync_sdk, source, "x")
    dead = receive_one(sync_sdk.receiver(letters))
    assert text_of(dead) == "x"
    assert dead.dead_letter_reason


def test_dead_letters_wait_for_a_disabled_place(sync_sdk, bus, mourned):
    """SB-F-0147 they are not lost: they go on when the place is active again."""
    queue, letters = mourned
    bus.update_queue(letters, status="Disabled")
    _send(sync_sdk, queue, "x")
    receiver = sync_sdk.receiver(queue)
    receiver.dead_letter_message(receive_one(receiver), reason="r")
    bus.advance(5)
    bus.update_queue(letters, status="Active")
    bus.advance(60)
    dead = receive_one(sync_sdk.receiver(letters))
    assert (text_of(dead), dead.dead_letter_reason) == ("x", "r")


def test_place_of_dead_letters_must_exist(make_queue):
    """SB-F-0148 as the target of a forward must."""
    with pytest.raises(Refusal, match="nowhere"):
        make_queue(forward_dead_lettered_messages_to="nowhere")


def test_receive_and_delete_from_a_target(sync_sdk, forwarding):
    """SB-F-0149 a forwarded message is received but once."""
    source, target = forwarding
    _send(sync_sdk, source, "x", "y")
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    receiver = sync_sdk.receiver(target, receive_mode=mode)
    assert texts_of(receive(receiver, 2)) == ["x", "y"]
    assert sync_sdk.receiver(target).peek_messages() == []


def test_deleted_source_forwards_nothing_more(bus, sync_sdk, forwarding):
    """SB-F-0150 the target goes on without its source."""
    source, target = forwarding
    bus.delete_queue(source)
    with pytest.raises(MessagingEntityNotFound):
        bus.update_queue(source, status="Active")
    _send(sync_sdk, target, "x")
    assert text_of(receive_one(sync_sdk.receiver(target))) == "x"
