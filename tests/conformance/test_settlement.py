"""SB-Q-3xx: settling on the link and over `$management`: complete, abandon, release.

Deferring and dead-lettering have their own files.
"""

import copy

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessageAlreadySettled, MessageLockLostError

from .sdk import (
    assert_nothing_to_receive,
    receive,
    receive_one,
    text_of,
    texts_of,
)
from .setups import everywhere


def _send(sdk, queue, *texts):
    sdk.sender(queue).send_messages([ServiceBusMessage(text) for text in texts])


def _is_empty(receiver):
    return receiver.peek_messages(sequence_number=1) == []


def test_completed_message_is_gone(sdk, queue):
    """SB-Q-301 complete removes the message."""
    _send(sdk, queue, "x")
    receiver = sdk.receiver(queue)
    receiver.complete_message(receive_one(receiver))
    assert _is_empty(receiver)


def test_messages_can_be_completed_in_any_order(sdk, queue):
    """SB-Q-302 completing the last of three first leaves the other two."""
    _send(sdk, queue, "a", "b", "c")
    receiver = sdk.receiver(queue)
    a, b, c = receive(receiver, 3)
    receiver.complete_message(c)
    assert texts_of(receiver.peek_messages(5, sequence_number=1)) == ["a", "b"]
    receiver.complete_message(a)
    receiver.complete_message(b)
    assert _is_empty(receiver)


@everywhere
def test_abandoned_message_returns_with_higher_delivery_count(sdk, queue):
    """SB-Q-303 abandon: redelivered at once, count + 1, a new lock token."""
    _send(sdk, queue, "x")
    receiver = sdk.receiver(queue)
    first = receive_one(receiver)
    token = first.lock_token
    receiver.abandon_message(first)
    second = receive_one(receiver)
    assert (text_of(second), second.delivery_count) == ("x", 1)
    assert second.sequence_number == first.sequence_number
    assert second.lock_token != token


def test_every_abandon_raises_the_delivery_count(sdk, queue):
    """SB-Q-304 the count goes 0, 1, 2, 3, 4 over four abandons."""
    _send(sdk, queue, "x")
    receiver = sdk.receiver(queue)
    counts = []
    for _ in range(5):
        message = receive_one(receiver)
        counts.append(message.delivery_count)
        receiver.abandon_message(message)
    assert counts == [0, 1, 2, 3, 4]


def test_abandoned_message_keeps_its_place(sdk, queue):
    """SB-Q-305 an abandoned message comes before the ones sent after it."""
    _send(sdk, queue, "a", "b", "c")
    receiver = sdk.receiver(queue)
    receiver.abandon_message(receive_one(receiver))
    assert texts_of(receive(receiver, 3)) == ["a", "b", "c"]


def test_abandoned_message_can_be_completed_later(sdk, queue):
    """SB-Q-306 the second delivery of an abandoned message completes it."""
    _send(sdk, queue, "x")
    receiver = sdk.receiver(queue)
    receiver.abandon_message(receive_one(receiver))
    receiver.complete_message(receive_one(receiver))
    assert _is_empty(receiver)


@pytest.mark.parametrize(
    "second", ["complete_message", "abandon_message", "defer_message"]
)
def test_settling_twice_is_refused_by_the_sdk(sdk, queue, second):
    """SB-Q-307 settling a settled message raises `MessageAlreadySettled`."""
    _send(sdk, queue, "x")
    receiver = sdk.receiver(queue)
    message = receive_one(receiver)
    receiver.complete_message(message)
    with pytest.raises(MessageAlreadySettled):
        getattr(receiver, second)(message)


def test_settling_another_delivery_twice_is_refused_by_the_bus(sdk, queue):
    """SB-Q-308 a token that was used already is lock lost for any other receiver.

    The second receiver does not know the delivery, so the SDK asks `$management`.
    """
    _send(sdk, queue, "x")
    first, second = sdk.receiver(queue), sdk.receiver(queue)
    message = receive_one(first)
    unsettled_copy = copy.copy(message)
    first.complete_message(message)
    with pytest.raises(MessageLockLostError):
        second.complete_message(unsettled_copy)


@pytest.mark.parametrize("action", ["complete_message", "dead_letter_message"])
def test_message_is_settled_over_management_after_its_link_died(sdk, queue, action):
    """SB-Q-309 a lock outlives its link: another connection settles by token."""
    _send(sdk, queue, "x")
    first, second = sdk.receiver(queue), sdk.receiver(queue)
    message = receive_one(first)
    first.close()
    getattr(second, action)(message)
    assert _is_empty(second)
    dead = sdk.dead_letter_receiver(queue).peek_messages()
    assert texts_of(dead) == (["x"] if action == "dead_letter_message" else [])


def test_message_is_abandoned_over_management(sdk, queue):
    """SB-Q-310 abandon by token: the message comes back with count 1."""
    _send(sdk, queue, "x")
    first, second = sdk.receiver(queue), sdk.receiver(queue)
    message = receive_one(first)
    first.close()
    second.abandon_message(message)
    assert receive_one(second).delivery_count == 1


@everywhere
def test_message_is_deferred_over_management(sdk, queue):
    """SB-Q-311 defer by token: only its sequence number gets the message."""
    _send(sdk, queue, "x")
    first, second = sdk.receiver(queue), sdk.receiver(queue)
    message = receive_one(first)
    first.close()
    second.defer_message(message)
    assert_nothing_to_receive(second)
    deferred = second.receive_deferred_messages(message.sequence_number)
    assert texts_of(deferred) == ["x"]


def test_closing_the_receiver_keeps_the_lock_of_a_received_message(sdk, queue):
    """SB-Q-312 a message in the application's hands stays locked after the close."""
    _send(sdk, queue, "held", "free")
    first, second = sdk.receiver(queue), sdk.receiver(queue)
    message = receive_one(first)
    first.close()
    assert text_of(receive_one(second)) == "free"
    assert_nothing_to_receive(second)
    second.complete_message(message)


def test_peeked_message_cannot_be_settled(sdk, queue):
    """SB-Q-313 the SDK refuses to settle a peeked message."""
    _send(sdk, queue, "x")
    receiver = sdk.receiver(queue)
    (peeked,) = receiver.peek_messages()
    with pytest.raises(ValueError, match="peeked"):
        receiver.complete_message(peeked)


def test_settling_many_messages_one_by_one(sdk, queue):
    """SB-Q-314 a hundred locked messages are each settled and confirmed."""
    _send(sdk, queue, *(f"m{n}" for n in range(100)))
    receiver = sdk.receiver(queue, prefetch_count=100)
    for message in receive(receiver, 100):
        receiver.complete_message(message)
    assert _is_empty(receiver)
