"""SB-Q-9xx: deferred messages, received by their sequence numbers only."""

from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.exceptions import MessageLockLostError, MessageNotFoundError

from .sdk import (
    assert_nothing_to_receive,
    receive,
    receive_one,
    text_of,
    texts_of,
)


def _defer(sdk, queue, *texts):
    """Send and defer messages; gives a receiver and their sequence numbers."""
    sdk.sender(queue).send_messages([ServiceBusMessage(text) for text in texts])
    receiver = sdk.receiver(queue)
    messages = receive(receiver, len(texts))
    for message in messages:
        receiver.defer_message(message)
    return receiver, [message.sequence_number for message in messages]


def test_deferred_message_is_not_delivered(sdk, queue):
    """SB-Q-901 a deferred message does not come to receivers any more."""
    receiver, _ = _defer(sdk, queue, "x")
    assert_nothing_to_receive(receiver)
    assert texts_of(receiver.peek_messages(sequence_number=1)) == ["x"]


def test_deferred_message_is_received_by_its_number(sdk, queue):
    """SB-Q-902 receive deferred gives the message locked, with the same number."""
    receiver, (number,) = _defer(sdk, queue, "x")
    (message,) = receiver.receive_deferred_messages(number)
    assert text_of(message) == "x"
    assert message.sequence_number == number
    assert message.lock_token is not None
    assert message.locked_until_utc is not None


def test_several_deferred_messages_are_received_at_once(sdk, queue):
    """SB-Q-903 a list of numbers gives all of them, each with its own token."""
    receiver, numbers = _defer(sdk, queue, "a", "b", "c")
    messages = receiver.receive_deferred_messages(numbers)
    assert sorted(texts_of(messages)) == ["a", "b", "c"]
    assert len({message.lock_token for message in messages}) == 3


def test_missing_number_raises_and_locks_nothing(sdk, queue):
    """SB-Q-904 all or nothing: one unknown number, and none is handed out."""
    receiver, (number,) = _defer(sdk, queue, "x")
    with pytest.raises(MessageNotFoundError):
        receiver.receive_deferred_messages([number, 4711])
    assert texts_of(receiver.receive_deferred_messages(number)) == ["x"]


def test_active_message_cannot_be_received_by_number(sdk, queue):
    """SB-Q-905 the number of a message that is not deferred is not found."""
    sdk.sender(queue).send_messages(ServiceBusMessage("active"))
    receiver = sdk.receiver(queue)
    with pytest.raises(MessageNotFoundError):
        receiver.receive_deferred_messages(1)
    assert text_of(receive_one(receiver)) == "active"


def test_deferred_message_that_is_locked_is_not_found(sdk, queue):
    """SB-Q-906 while one receiver holds it, the number gives nothing to another."""
    receiver, (number,) = _defer(sdk, queue, "x")
    receiver.receive_deferred_messages(number)
    with pytest.raises(MessageNotFoundError):
        sdk.receiver(queue).receive_deferred_messages(number)


def test_deferred_message_is_completed(sdk, queue):
    """SB-Q-907 completing a deferred message removes it; its number is unknown then."""
    receiver, (number,) = _defer(sdk, queue, "x")
    (message,) = receiver.receive_deferred_messages(number)
    receiver.complete_message(message)
    assert receiver.peek_messages(sequence_number=1) == []
    with pytest.raises(MessageNotFoundError):
        receiver.receive_deferred_messages(number)


def test_abandoned_deferred_message_stays_deferred(sdk, queue):
    """SB-Q-908 abandon keeps it deferred and raises its count."""
    receiver, (number,) = _defer(sdk, queue, "x")
    (message,) = receiver.receive_deferred_messages(number)
    before = message.delivery_count
    receiver.abandon_message(message)
    assert_nothing_to_receive(receiver)
    (again,) = receiver.receive_deferred_messages(number)
    assert again.delivery_count == before + 1


def test_deferred_message_is_dead_lettered(sdk, queue):
    """SB-Q-909 a deferred message can be dead-lettered with a reason."""
    receiver, (number,) = _defer(sdk, queue, "x")
    (message,) = receiver.receive_deferred_messages(number)
    receiver.dead_letter_message(message, reason="r", error_description="d")
    dead = receive_one(sdk.dead_letter_receiver(queue))
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("r", "d")
    assert receiver.peek_messages(sequence_number=1) == []


def test_deferred_message_is_deferred_again(sdk, queue):
    """SB-Q-910 defer of a deferred message keeps its number."""
    receiver, (number,) = _defer(sdk, queue, "x")
    (message,) = receiver.receive_deferred_messages(number)
    receiver.defer_message(message)
    assert texts_of(receiver.receive_deferred_messages(number)) == ["x"]


def test_deferred_messages_are_received_and_deleted(sdk, queue):
    """SB-Q-911 in receive-and-delete mode the deferred message is gone at once."""
    _, (number,) = _defer(sdk, queue, "x")
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    receiver = sdk.receiver(queue, receive_mode=mode)
    assert texts_of(receiver.receive_deferred_messages(number)) == ["x"]
    assert receiver.peek_messages(sequence_number=1) == []


def test_lock_of_a_deferred_message_runs_out(sdk, bus, make_queue):
    """SB-Q-912 after expiry the token is lost and the message is still deferred."""
    queue = make_queue(lock_duration=timedelta(seconds=30))
    receiver, (number,) = _defer(sdk, queue, "x")
    (message,) = receiver.receive_deferred_messages(number)
    bus.advance(31)
    with pytest.raises(MessageLockLostError):
        receiver.complete_message(message)
    assert_nothing_to_receive(receiver)
    assert texts_of(receiver.receive_deferred_messages(number)) == ["x"]


def test_lock_of_a_deferred_message_is_renewed(sdk, bus, make_queue):
    """SB-Q-913 renew works for deferred messages too."""
    queue = make_queue(lock_duration=timedelta(seconds=30))
    receiver, (number,) = _defer(sdk, queue, "x")
    (message,) = receiver.receive_deferred_messages(number)
    bus.advance(20)
    receiver.renew_message_lock(message)
    bus.advance(20)
    receiver.complete_message(message)
    assert receiver.peek_messages(sequence_number=1) == []


def test_defer_leaves_other_messages_alone(sdk, queue):
    """SB-Q-914 deferring the first message lets the second one through."""
    sdk.sender(queue).send_messages([ServiceBusMessage("a"), ServiceBusMessage("b")])
    receiver = sdk.receiver(queue)
    receiver.defer_message(receive_one(receiver))
    assert text_of(receive_one(receiver)) == "b"
