"""SB-Q-2xx: receiving from a queue: modes, waiting, prefetch, several receivers."""

import threading
import time

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode

from .sdk import (
    QUIET_SECONDS,
    assert_nothing_to_receive,
    receive,
    receive_one,
    text_of,
    texts_of,
)
from .setups import in_order

DESTRUCTIVE = ServiceBusReceiveMode.RECEIVE_AND_DELETE


def _send(sdk, queue, *texts):
    sdk.sender(queue).send_messages([ServiceBusMessage(text) for text in texts])


def test_receive_and_delete_removes_at_once(sdk, queue):
    """SB-Q-201 receive and delete: the message is gone without being settled."""
    _send(sdk, queue, "once")
    receiver = sdk.receiver(queue, receive_mode=DESTRUCTIVE)
    message = receive_one(receiver)
    assert text_of(message) == "once"
    assert message.lock_token is None
    assert receiver.peek_messages(sequence_number=1) == []


def test_receive_and_delete_takes_many(sdk, queue):
    """SB-Q-202 receive and delete of many messages keeps order and loses none."""
    texts = [f"m{n}" for n in range(100)]
    _send(sdk, queue, *texts)
    receiver = sdk.receiver(queue, receive_mode=DESTRUCTIVE)
    assert texts_of(receive(receiver, 100)) == texts


def test_settling_after_receive_and_delete_is_refused(sdk, queue):
    """SB-Q-203 the SDK refuses to settle what was received and deleted."""
    _send(sdk, queue, "x")
    receiver = sdk.receiver(queue, receive_mode=DESTRUCTIVE)
    message = receive_one(receiver)
    with pytest.raises(ValueError, match="RECEIVE_AND_DELETE"):
        receiver.complete_message(message)


def test_peek_locked_message_is_not_given_to_another_receiver(sdk, queue):
    """SB-Q-204 peek-lock: a locked message is kept but invisible to receivers."""
    _send(sdk, queue, "x")
    first, second = sdk.receiver(queue), sdk.receiver(queue)
    receive_one(first)
    assert_nothing_to_receive(second)
    assert texts_of(second.peek_messages()) == ["x"]


def test_batch_receive_returns_up_to_the_count(sdk, queue):
    """SB-Q-205 a batch receive gives no more than asked, and the rest later."""
    _send(sdk, queue, *"abcde")
    receiver = sdk.receiver(queue)
    assert texts_of(receive(receiver, 2)) == ["a", "b"]
    assert texts_of(receive(receiver, 3)) == ["c", "d", "e"]


def test_batch_receive_returns_what_there_is(sdk, queue):
    """SB-Q-206 a batch receive does not wait for the full count."""
    _send(sdk, queue, "a", "b")
    started = time.monotonic()
    messages = sdk.receiver(queue).receive_messages(
        max_message_count=10, max_wait_time=30
    )
    assert texts_of(messages) == ["a", "b"]
    assert time.monotonic() - started < 15


def test_empty_receive_ends_after_the_wait_time(sdk, queue):
    """SB-Q-207 an empty queue gives an empty list after `max_wait_time`."""
    receiver = sdk.receiver(queue)
    started = time.monotonic()
    messages = receiver.receive_messages(max_wait_time=QUIET_SECONDS)
    assert messages == []
    assert time.monotonic() - started >= QUIET_SECONDS * 0.9


def test_waiting_receiver_gets_a_message_sent_later(sdk, queue):
    """SB-Q-208 a message that arrives during the wait ends it."""
    receiver, sender = sdk.receiver(queue), sdk.sender(queue)
    started = time.monotonic()
    later = threading.Timer(0.3, sender.send_messages, args=[ServiceBusMessage("late")])
    later.start()
    messages = receiver.receive_messages(max_wait_time=30)
    later.join()
    assert texts_of(messages) == ["late"]
    assert time.monotonic() - started < 15


def test_iteration_gives_messages_until_the_wait_time(sdk, queue):
    """SB-Q-209 iterating gives all messages and ends when none comes in time."""
    _send(sdk, queue, *"abcd")
    receiver = sdk.receiver(queue, max_wait_time=1)
    texts = []
    for message in receiver:
        texts.append(text_of(message))
        receiver.complete_message(message)
    assert texts == ["a", "b", "c", "d"]
    assert receiver.peek_messages(sequence_number=1) == []


def test_iteration_in_receive_and_delete_mode(sdk, queue):
    """SB-Q-210 iterating in receive-and-delete mode empties the queue."""
    _send(sdk, queue, *"abc")
    receiver = sdk.receiver(queue, receive_mode=DESTRUCTIVE, max_wait_time=1)
    assert texts_of(list(receiver)) == ["a", "b", "c"]
    assert receiver.peek_messages(sequence_number=1) == []


@pytest.mark.parametrize("prefetch_count", [1, 10, 300])
def test_prefetching_receiver_gets_all_in_order(sdk, queue, prefetch_count):
    """SB-Q-211 with prefetch every message is received once and in order."""
    texts = [f"m{n}" for n in range(60)]
    _send(sdk, queue, *texts)
    receiver = sdk.receiver(queue, prefetch_count=prefetch_count)
    seen = []
    while len(seen) < len(texts):
        for message in receive(receiver, 10):
            seen.append(text_of(message))
            receiver.complete_message(message)
    assert seen == texts
    assert receiver.peek_messages(sequence_number=1) == []


def test_closing_a_prefetching_receiver_leaves_counts_unchanged(sdk, queue):
    """SB-Q-212 prefetched but unreceived messages go back with delivery count 0."""
    _send(sdk, queue, *(f"m{n}" for n in range(20)))
    hoarder = sdk.receiver(queue, prefetch_count=50)
    hoarder.complete_message(receive_one(hoarder))
    hoarder.close()
    messages = receive(sdk.receiver(queue), 19)
    assert texts_of(messages) == [f"m{n}" for n in range(1, 20)]
    assert {m.delivery_count for m in messages} == {0}


def test_competing_receivers_share_without_overlap(sdk, queue):
    """SB-Q-213 two receivers together get each message exactly once."""
    _send(sdk, queue, *(f"m{n}" for n in range(40)))
    receivers = [sdk.receiver(queue), sdk.receiver(queue)]
    seen = []
    for _ in range(4):
        for receiver in receivers:
            for message in receive(receiver, 5):
                seen.append(text_of(message))
                receiver.complete_message(message)
    assert sorted(seen) == sorted(f"m{n}" for n in range(40))


def test_message_given_back_goes_to_the_other_receiver(sdk, queue):
    """SB-Q-214 what one receiver abandons, a waiting other one gets."""
    _send(sdk, queue, "x")
    first, second = sdk.receiver(queue), sdk.receiver(queue)
    message = receive_one(first)
    first.abandon_message(message)
    again = receive_one(second)
    assert (text_of(again), again.delivery_count) == ("x", 1)


def test_idle_receiver_gives_back_what_comes_between_calls(sdk, queue):
    """SB-Q-215 the SDK releases what arrives outside a call; the count stays 0."""
    receiver = sdk.receiver(queue)
    assert_nothing_to_receive(receiver)
    _send(sdk, queue, "x")
    receiver.peek_messages()
    message = receive_one(receiver)
    assert (text_of(message), message.delivery_count) == ("x", 0)


def test_each_delivery_has_its_own_lock_token(sdk, queue):
    """SB-Q-216 lock tokens differ between messages and between deliveries."""
    _send(sdk, queue, "a", "b")
    receiver = sdk.receiver(queue)
    one, two = receive(receiver, 2)
    tokens = {one.lock_token, two.lock_token}
    receiver.abandon_message(one)
    tokens.add(receive_one(receiver).lock_token)
    assert len(tokens) == 3


@in_order
def test_large_messages_are_received_whole(sdk, queue):
    """SB-Q-217 several messages of many frames each arrive whole and in order."""
    bodies = [bytes([65 + n]) * 200_000 for n in range(5)]
    sender = sdk.sender(queue)
    for body in bodies:
        sender.send_messages(ServiceBusMessage(body))
    messages = receive(sdk.receiver(queue), 5)
    assert [b"".join(m.body) for m in messages] == bodies
