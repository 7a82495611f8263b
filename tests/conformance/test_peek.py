"""SB-Q-7xx: browsing with peek: order, paging, states; it neither locks nor counts."""

from datetime import timedelta

from azure.servicebus import ServiceBusMessage, ServiceBusMessageState

from .sdk import receive_one, text_of, texts_of


def _send(sdk, queue, *texts):
    sdk.sender(queue).send_messages([ServiceBusMessage(text) for text in texts])


def test_peek_of_an_empty_queue_is_empty(sdk, queue):
    """SB-Q-701 nothing there: an empty list, at once."""
    assert sdk.receiver(queue).peek_messages(10) == []


def test_peek_shows_messages_in_order(sdk, queue):
    """SB-Q-702 peek gives the messages by sequence number, whole."""
    sent = [ServiceBusMessage(t, message_id=f"id-{t}") for t in "abc"]
    sdk.sender(queue).send_messages(sent)
    peeked = sdk.receiver(queue).peek_messages(10)
    assert texts_of(peeked) == ["a", "b", "c"]
    assert [m.message_id for m in peeked] == ["id-a", "id-b", "id-c"]
    assert [m.sequence_number for m in peeked] == [1, 2, 3]
    assert all(m.enqueued_time_utc for m in peeked)


def test_peek_gives_no_more_than_asked(sdk, queue):
    """SB-Q-703 the count bounds the answer."""
    _send(sdk, queue, *"abcde")
    assert texts_of(sdk.receiver(queue).peek_messages(2)) == ["a", "b"]


def test_peek_goes_on_where_it_stopped(sdk, queue):
    """SB-Q-704 repeated peeks page through the queue and end empty."""
    _send(sdk, queue, *"abcde")
    receiver = sdk.receiver(queue)
    pages = [texts_of(receiver.peek_messages(2)) for _ in range(4)]
    assert pages == [["a", "b"], ["c", "d"], ["e"], []]


def test_peek_starts_at_a_sequence_number(sdk, queue):
    """SB-Q-705 peek from a number on, also one that is not there any more."""
    _send(sdk, queue, *"abcd")
    receiver = sdk.receiver(queue)
    receiver.complete_message(receive_one(receiver))
    assert texts_of(receiver.peek_messages(10, sequence_number=1)) == ["b", "c", "d"]
    assert texts_of(receiver.peek_messages(10, sequence_number=3)) == ["c", "d"]
    assert receiver.peek_messages(10, sequence_number=5) == []


def test_peek_does_not_lock(sdk, queue):
    """SB-Q-706 a peeked message is delivered next, with count 0, and has no token."""
    _send(sdk, queue, "x")
    receiver = sdk.receiver(queue)
    (peeked,) = receiver.peek_messages()
    assert peeked.lock_token is None
    message = receive_one(receiver)
    assert (text_of(message), message.delivery_count) == ("x", 0)


def test_peek_shows_locked_messages(sdk, queue):
    """SB-Q-707 a message that somebody has locked is still peeked."""
    _send(sdk, queue, "x")
    receiver = sdk.receiver(queue)
    receive_one(receiver)
    assert texts_of(receiver.peek_messages(sequence_number=1)) == ["x"]


def test_peek_shows_the_delivery_count(sdk, queue):
    """SB-Q-708 the count of past deliveries is seen, and peeking does not raise it."""
    _send(sdk, queue, "x")
    receiver = sdk.receiver(queue)
    receiver.abandon_message(receive_one(receiver))
    for _ in range(3):
        (peeked,) = receiver.peek_messages(sequence_number=1)
        assert peeked.delivery_count == 1


def test_peek_tells_the_states_apart(sdk, bus, queue):
    """SB-Q-709 active, deferred and scheduled messages are shown with their state."""
    sender, receiver = sdk.sender(queue), sdk.receiver(queue)
    sender.send_messages(ServiceBusMessage("deferred"))
    receiver.defer_message(receive_one(receiver))
    sender.send_messages(ServiceBusMessage("active"))
    due = bus.now() + timedelta(hours=1)
    sender.schedule_messages(ServiceBusMessage("scheduled"), due)
    states = {
        text_of(m): m.state for m in receiver.peek_messages(10, sequence_number=1)
    }
    assert states == {
        "deferred": ServiceBusMessageState.DEFERRED,
        "active": ServiceBusMessageState.ACTIVE,
        "scheduled": ServiceBusMessageState.SCHEDULED,
    }


def test_peek_pages_through_many_large_messages(sdk, queue):
    """SB-Q-710 a peek may give fewer than asked; repeating reaches all of them."""
    sender = sdk.sender(queue)
    for number in range(12):
        sender.send_messages(ServiceBusMessage(f"{number:02}" + "x" * 60_000))
    receiver = sdk.receiver(queue)
    seen = []
    while page := receiver.peek_messages(12):
        seen += [text_of(m)[:2] for m in page]
    assert seen == [f"{number:02}" for number in range(12)]


def test_peek_leaves_other_receivers_alone(sdk, queue):
    """SB-Q-711 two receivers each browse from the start."""
    _send(sdk, queue, "a", "b")
    for receiver in (sdk.receiver(queue), sdk.receiver(queue)):
        assert texts_of(receiver.peek_messages(5)) == ["a", "b"]
