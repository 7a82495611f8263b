"""SB-D-01xx: duplicate detection: within the window, an id is accepted once.

A duplicate is confirmed to its sender and dropped. Only the message id counts, and it
does not matter whether the first message is still there.
"""

from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage

from .sdk import eventually, receive_one, text_of, texts_of
from .setups import in_order, mixed_batch

WINDOW = timedelta(seconds=60)


@pytest.fixture
def queue(make_queue):
    """A queue that remembers ids for a minute."""
    return make_queue(
        requires_duplicate_detection=True,
        duplicate_detection_history_time_window=WINDOW,
    )


def _message(text, message_id, **options):
    return ServiceBusMessage(text, message_id=message_id, **options)


def _held(sdk, queue):
    return texts_of(sdk.receiver(queue).peek_messages(50))


@in_order
def test_duplicate_is_accepted_and_dropped(sdk, queue):
    """SB-D-0101 the second send succeeds and leaves nothing."""
    sender = sdk.sender(queue)
    for text in ("first", "second"):
        sender.send_messages(_message(text, "id"))
    sender.send_messages(_message("other", "other id"))
    assert _held(sdk, queue) == ["first", "other"]


def test_duplicate_of_a_received_message_is_dropped(sdk, queue):
    """SB-D-0102 the id stays taken when its message is completed."""
    sender, receiver = sdk.sender(queue), sdk.receiver(queue)
    sender.send_messages(_message("first", "id"))
    receiver.complete_message(receive_one(receiver))
    sender.send_messages(_message("second", "id"))
    assert _held(sdk, queue) == []


def test_id_is_free_after_the_window(sdk, bus, queue):
    """SB-D-0103 once the window has passed the id is accepted again."""
    sender = sdk.sender(queue)
    sender.send_messages(_message("first", "id"))
    bus.advance(WINDOW - timedelta(seconds=2))
    sender.send_messages(_message("too early", "id"))
    bus.advance(4)
    sender.send_messages(_message("again", "id"))
    assert _held(sdk, queue) == ["first", "again"]


@mixed_batch
def test_duplicates_within_one_batch(sdk, queue):
    """SB-D-0104 of the same id in one batch, the first stays; the rest is kept."""
    sdk.sender(queue).send_messages(
        [_message("1", "a"), _message("2", "b"), _message("3", "a"), _message("4", "c")]
    )
    assert _held(sdk, queue) == ["1", "2", "4"]


@mixed_batch
def test_batch_with_ids_known_before(sync_sdk, queue):
    """SB-D-0105 a batch that was sent before in part adds what is new."""
    sender = sync_sdk.sender(queue)
    sender.send_messages(_message("1", "a"))
    sender.send_messages([_message("1", "a"), _message("2", "b")])
    assert _held(sync_sdk, queue) == ["1", "2"]


@mixed_batch
def test_ids_are_told_apart_by_case(sync_sdk, queue):
    """SB-D-0106 ids are compared as they are."""
    sync_sdk.sender(queue).send_messages([_message("1", "id"), _message("2", "ID")])
    assert _held(sync_sdk, queue) == ["1", "2"]


@mixed_batch
def test_messages_without_id_are_no_duplicates(sync_sdk, queue):
    """SB-D-0107 what has no id is not compared."""
    messages = [ServiceBusMessage(str(number)) for number in range(3)]
    sync_sdk.sender(queue).send_messages(messages)
    assert _held(sync_sdk, queue) == ["0", "1", "2"]


def test_only_the_id_counts(sync_sdk, queue):
    """SB-D-0108 another body, subject or session makes no difference."""
    sender = sync_sdk.sender(queue)
    sender.send_messages(_message("first", "id"))
    sender.send_messages(_message("second", "id", subject="s", session_id="x"))
    assert _held(sync_sdk, queue) == ["first"]


def test_without_detection_ids_may_repeat(sync_sdk, make_queue):
    """SB-D-0109 a queue that was not asked to does not look."""
    queue = make_queue()
    sync_sdk.sender(queue).send_messages([_message("1", "id"), _message("2", "id")])
    assert _held(sync_sdk, queue) == ["1", "2"]


def test_queues_have_histories_of_their_own(sync_sdk, make_queue, queue):
    """SB-D-0110 the id of one queue is free in another."""
    other = make_queue(requires_duplicate_detection=True)
    for name in (queue, other):
        sync_sdk.sender(name).send_messages(_message("x", "id"))
    assert _held(sync_sdk, other) == ["x"]


def test_topic_drops_duplicates_for_all_subscriptions(sdk, bus, make_topic):
    """SB-D-0111 detection is the topic's; each subscription sees the first only."""
    topic = make_topic(requires_duplicate_detection=True)
    for name in ("a", "b"):
        bus.create_subscription(topic, name)
    sender = sdk.topic_sender(topic)
    for text in ("first", "second"):
        sender.send_messages(_message(text, "id"))
    for name in ("a", "b"):
        receiver = sdk.subscription_receiver(topic, name)
        assert texts_of(receiver.peek_messages(5)) == ["first"]


def test_scheduled_messages_take_part(sync_sdk, bus, queue):
    """SB-D-0112 a scheduled message takes its id when it is sent."""
    sender = sync_sdk.sender(queue)
    due = bus.now() + timedelta(seconds=30)
    sender.schedule_messages(_message("scheduled", "id"), due)
    sender.send_messages(_message("sent", "id"))
    bus.advance(31)
    assert _held(sync_sdk, queue) == ["scheduled"]


def test_scheduled_duplicate_is_dropped(sync_sdk, bus, queue):
    """SB-D-0113 scheduling an id that was sent adds nothing, and does not fail."""
    sender = sync_sdk.sender(queue)
    sender.send_messages(_message("sent", "id"))
    due = bus.now() + timedelta(seconds=30)
    (number,) = sender.schedule_messages(_message("scheduled", "id"), due)
    assert isinstance(number, int)
    bus.advance(31)
    assert _held(sync_sdk, queue) == ["sent"]


def test_duplicate_does_not_begin_the_window_anew(sync_sdk, bus, queue):
    """SB-D-0114 the window runs from the message that was kept."""
    sender = sync_sdk.sender(queue)
    sender.send_messages(_message("first", "id"))
    bus.advance(40)
    sender.send_messages(_message("dropped", "id"))
    bus.advance(30)
    sender.send_messages(_message("second", "id"))
    assert _held(sync_sdk, queue) == ["first", "second"]


def test_window_can_be_changed(sync_sdk, bus, queue):
    """SB-D-0115 a longer window holds for what is sent from then on."""
    bus.update_queue(queue, duplicate_detection_history_time_window=WINDOW * 5)
    sender = sync_sdk.sender(queue)
    sender.send_messages(_message("first", "id"))
    bus.advance(WINDOW * 2)
    sender.send_messages(_message("second", "id"))
    assert _held(sync_sdk, queue) == ["first"]


def test_dead_lettered_id_stays_taken(sync_sdk, queue):
    """SB-D-0116 a dead letter is not sent again by accident."""
    sender, receiver = sync_sdk.sender(queue), sync_sdk.receiver(queue)
    sender.send_messages(_message("x", "id"))
    receiver.dead_letter_message(receive_one(receiver))
    sender.send_messages(_message("x", "id"))
    assert _held(sync_sdk, queue) == []
    assert text_of(receive_one(sync_sdk.dead_letter_receiver(queue))) == "x"


def test_forwarded_message_is_compared_at_its_target(sync_sdk, bus, queue):
    """SB-D-0117 the target of a forward drops what it had within its window."""
    bus.create_queue("to-" + queue, forward_to=queue)
    sync_sdk.sender(queue).send_messages(_message("direct", "id"))
    sync_sdk.sender("to-" + queue).send_messages(_message("forwarded", "id"))
    sync_sdk.sender("to-" + queue).send_messages(_message("new", "new id"))
    eventually(lambda: _held(sync_sdk, queue)[1:] == ["new"], "both were forwarded")
    assert _held(sync_sdk, queue) == ["direct", "new"]
    assert texts_of(sync_sdk.dead_letter_receiver("to-" + queue).peek_messages()) == []
