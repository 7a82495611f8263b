"""SB-Q-6xx: messages expire: dropped or dead-lettered, never delivered late."""

from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessageLockLostError

from .sdk import (
    assert_nothing_to_receive,
    receive,
    receive_one,
    text_of,
    texts_of,
)

TEN_SECONDS = timedelta(seconds=10)


def _send(sdk, queue, text, time_to_live=None):
    message = ServiceBusMessage(text, time_to_live=time_to_live)
    sdk.sender(queue).send_messages(message)


def test_message_with_time_to_live_is_delivered_in_time(sdk, queue):
    """SB-Q-601 before it expires a message is delivered, with its time to live."""
    _send(sdk, queue, "x", TEN_SECONDS)
    message = receive_one(sdk.receiver(queue))
    assert message.time_to_live == TEN_SECONDS
    assert message.expires_at_utc == message.enqueued_time_utc + TEN_SECONDS


def test_expired_message_is_dropped(sdk, bus, queue):
    """SB-Q-602 after its time a message is gone, and not dead-lettered by default."""
    _send(sdk, queue, "short", TEN_SECONDS)
    _send(sdk, queue, "long")
    bus.advance(11)
    assert text_of(receive_one(sdk.receiver(queue))) == "long"
    assert sdk.dead_letter_receiver(queue).peek_messages() == []


def test_expired_message_is_never_delivered(sdk, bus, queue):
    """SB-Q-603 a receiver that comes late gets nothing."""
    _send(sdk, queue, "x", TEN_SECONDS)
    bus.advance(11)
    assert_nothing_to_receive(sdk.receiver(queue))


def test_expired_message_is_dead_lettered_where_wanted(sdk, bus, make_queue):
    """SB-Q-604 with dead-lettering on expiration it lands in the sub-queue."""
    queue = make_queue(dead_lettering_on_message_expiration=True)
    _send(sdk, queue, "x", TEN_SECONDS)
    bus.advance(11)
    dead = receive_one(sdk.dead_letter_receiver(queue))
    assert text_of(dead) == "x"
    assert dead.dead_letter_reason == "TTLExpiredException"
    description = "The message expired and was dead lettered."
    assert dead.dead_letter_error_description == description


def test_default_time_to_live_of_the_queue_applies(sdk, bus, make_queue):
    """SB-Q-605 a message without a time to live gets that of its queue."""
    queue = make_queue(
        default_message_time_to_live=TEN_SECONDS,
        dead_lettering_on_message_expiration=True,
    )
    _send(sdk, queue, "x")
    (peeked,) = sdk.receiver(queue).peek_messages()
    assert peeked.time_to_live == TEN_SECONDS
    bus.advance(11)
    dead = receive_one(sdk.dead_letter_receiver(queue))
    assert dead.dead_letter_reason == "TTLExpiredException"


def test_longer_time_to_live_is_cut_to_the_queue_default(sdk, bus, make_queue):
    """SB-Q-606 the shorter of message and queue time to live is used."""
    queue = make_queue(default_message_time_to_live=TEN_SECONDS)
    _send(sdk, queue, "x", timedelta(minutes=10))
    (peeked,) = sdk.receiver(queue).peek_messages()
    assert peeked.time_to_live == TEN_SECONDS
    bus.advance(11)
    assert_nothing_to_receive(sdk.receiver(queue))


def test_shorter_time_to_live_wins_over_the_queue_default(sdk, bus, make_queue):
    """SB-Q-607 a message may live shorter than its queue's default."""
    queue = make_queue(default_message_time_to_live=timedelta(minutes=1))
    _send(sdk, queue, "x", TEN_SECONDS)
    bus.advance(11)
    assert_nothing_to_receive(sdk.receiver(queue))


def test_locked_message_does_not_expire(sdk, bus, make_queue):
    """SB-Q-608 a locked message can be completed although its time has passed."""
    queue = make_queue(dead_lettering_on_message_expiration=True)
    _send(sdk, queue, "x", TEN_SECONDS)
    receiver = sdk.receiver(queue)
    message = receive_one(receiver)
    bus.advance(11)
    receiver.complete_message(message)
    assert receiver.peek_messages(sequence_number=1) == []
    assert sdk.dead_letter_receiver(queue).peek_messages() == []


def test_message_expires_when_it_is_abandoned_too_late(sdk, bus, make_queue):
    """SB-Q-609 abandoned after its time, a message is dead-lettered, not delivered."""
    queue = make_queue(dead_lettering_on_message_expiration=True)
    _send(sdk, queue, "x", TEN_SECONDS)
    receiver = sdk.receiver(queue)
    message = receive_one(receiver)
    bus.advance(11)
    receiver.abandon_message(message)
    dead = receive_one(sdk.dead_letter_receiver(queue))
    assert dead.dead_letter_reason == "TTLExpiredException"
    assert_nothing_to_receive(receiver)


def test_message_expires_when_its_lock_ends_too_late(sdk, bus, make_queue):
    """SB-Q-610 lock and time run out together: not delivered again."""
    queue = make_queue(
        lock_duration=timedelta(seconds=20), dead_lettering_on_message_expiration=True
    )
    _send(sdk, queue, "x", TEN_SECONDS)
    receiver = sdk.receiver(queue)
    message = receive_one(receiver)
    bus.advance(21)
    dead = receive_one(sdk.dead_letter_receiver(queue))
    assert dead.dead_letter_reason == "TTLExpiredException"
    with pytest.raises(MessageLockLostError):
        receiver.complete_message(message)


def test_dead_letters_do_not_expire(sdk, bus, make_queue):
    """SB-Q-611 in the sub-queue neither the message's nor the queue's time counts."""
    queue = make_queue(default_message_time_to_live=timedelta(seconds=15))
    _send(sdk, queue, "x", TEN_SECONDS)
    receiver = sdk.receiver(queue)
    receiver.dead_letter_message(receive_one(receiver), reason="r")
    bus.advance(30)
    assert text_of(receive_one(sdk.dead_letter_receiver(queue))) == "x"


def test_deferred_message_can_be_received_after_its_time(sdk, bus, queue):
    """SB-Q-612 deferred messages are not purged when they expire."""
    _send(sdk, queue, "x", TEN_SECONDS)
    receiver = sdk.receiver(queue)
    message = receive_one(receiver)
    receiver.defer_message(message)
    bus.advance(11)
    deferred = receiver.receive_deferred_messages(message.sequence_number)
    assert texts_of(deferred) == ["x"]


def test_scheduled_message_lives_from_its_activation(sdk, bus, queue):
    """SB-Q-613 the time to live of a scheduled message starts when it is due."""
    message = ServiceBusMessage("x", time_to_live=TEN_SECONDS)
    due = bus.now() + timedelta(seconds=20)
    sdk.sender(queue).schedule_messages(message, due)
    bus.advance(25)
    assert texts_of(sdk.receiver(queue).peek_messages()) == ["x"]
    assert text_of(receive_one(sdk.receiver(queue))) == "x"


def test_messages_expire_each_at_its_own_time(sdk, bus, make_queue):
    """SB-Q-614 of messages sent together each expires by itself."""
    queue = make_queue(dead_lettering_on_message_expiration=True)
    for text, seconds in (("slow", 30), ("fast", 5), ("middle", 15)):
        _send(sdk, queue, text, timedelta(seconds=seconds))
    receiver = sdk.dead_letter_receiver(queue)
    for expected in ("fast", "middle", "slow"):
        bus.advance(11)
        assert text_of(receive_one(receiver)) == expected


def test_batch_members_have_their_own_time_to_live(sdk, bus, queue):
    """SB-Q-615 the time to live of the first message of a batch is only its own."""
    batch = [
        ServiceBusMessage("short", time_to_live=TEN_SECONDS),
        ServiceBusMessage("long"),
    ]
    sdk.sender(queue).send_messages(batch)
    bus.advance(11)
    assert texts_of(receive(sdk.receiver(queue), 1)) == ["long"]
    assert_nothing_to_receive(sdk.receiver(queue))
