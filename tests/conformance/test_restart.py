"""SB-Q-12xx: what a restart keeps: everything except locks.

Each case has its own bus, and new clients after the restart; reconnecting old ones is
up to the SDK.
"""

from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageState
from azure.servicebus.exceptions import MessageLockLostError, MessageNotFoundError

from .sdk import receive, receive_one, text_of, texts_of
from .setups import in_order

QUEUE = "kept"


@pytest.fixture
def kept(own):
    """A bus with one queue, whose handlers the restart cuts off."""
    own.bus.create_queue(
        QUEUE, lock_duration=timedelta(minutes=5), max_delivery_count=5
    )
    return own


def _send(sdk, *texts):
    sdk.sender(QUEUE).send_messages([ServiceBusMessage(text) for text in texts])


def _restart(sdk):
    """Restart with no client connected, so that no handler notices half way."""
    sdk.close_handlers()
    sdk.bus.restart()


@in_order
def test_restart_keeps_messages_in_order(kept):
    """SB-Q-1201 waiting messages are there after a restart, unchanged, in order."""
    message = ServiceBusMessage(
        "first", message_id="m", application_properties={"k": 1}
    )
    kept.sender(QUEUE).send_messages(message)
    _send(kept, *(f"m{n}" for n in range(50)))
    before = [m.enqueued_time_utc for m in kept.receiver(QUEUE).peek_messages(5)]
    _restart(kept)
    messages = receive(kept.receiver(QUEUE), 51)
    assert texts_of(messages) == ["first", *(f"m{n}" for n in range(50))]
    assert messages[0].message_id == "m"
    assert messages[0].application_properties == {b"k": 1}
    assert [m.enqueued_time_utc for m in messages[: len(before)]] == before


def test_restart_does_not_bring_back_settled_messages(kept):
    """SB-Q-1202 completed messages stay away, the others stay."""
    _send(kept, "a", "b", "c")
    receiver = kept.receiver(QUEUE)
    _, b, _ = receive(receiver, 3)
    receiver.complete_message(b)
    _restart(kept)
    assert texts_of(receive(kept.receiver(QUEUE), 2)) == ["a", "c"]


def test_restart_keeps_deferred_messages(kept):
    """SB-Q-1203 deferred messages keep number and state."""
    _send(kept, "x")
    receiver = kept.receiver(QUEUE)
    message = receive_one(receiver)
    receiver.defer_message(message)
    _restart(kept)
    receiver = kept.receiver(QUEUE)
    (peeked,) = receiver.peek_messages()
    assert peeked.state == ServiceBusMessageState.DEFERRED
    (deferred,) = receiver.receive_deferred_messages(message.sequence_number)
    receiver.complete_message(deferred)
    with pytest.raises(MessageNotFoundError):
        receiver.receive_deferred_messages(message.sequence_number)


def test_restart_keeps_scheduled_messages(kept):
    """SB-Q-1204 scheduled messages come in time, and can still be cancelled."""
    due = kept.bus.now() + timedelta(seconds=60)
    batch = [ServiceBusMessage("stays"), ServiceBusMessage("goes")]
    numbers = list(kept.sender(QUEUE).schedule_messages(batch, due))
    _restart(kept)
    kept.sender(QUEUE).cancel_scheduled_messages(numbers[1])
    receiver = kept.receiver(QUEUE)
    (peeked,) = receiver.peek_messages(5)
    assert peeked.state == ServiceBusMessageState.SCHEDULED
    kept.bus.advance((due - kept.bus.now()).total_seconds() + 1)
    assert text_of(receive_one(receiver)) == "stays"


def test_restart_keeps_dead_letters(kept):
    """SB-Q-1205 dead letters keep reason and description."""
    _send(kept, "x")
    receiver = kept.receiver(QUEUE)
    receiver.dead_letter_message(
        receive_one(receiver), reason="r", error_description="d"
    )
    _restart(kept)
    dead = receive_one(kept.dead_letter_receiver(QUEUE))
    assert text_of(dead) == "x"
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("r", "d")
    assert kept.receiver(QUEUE).peek_messages() == []


def test_restart_keeps_delivery_counts(kept):
    """SB-Q-1206 counts of abandoned deliveries survive, and the limit still holds."""
    _send(kept, "x")
    receiver = kept.receiver(QUEUE)
    for _ in range(3):
        receiver.abandon_message(receive_one(receiver))
    _restart(kept)
    receiver = kept.receiver(QUEUE)
    for count in (3, 4):
        message = receive_one(receiver)
        assert message.delivery_count == count
        receiver.abandon_message(message)
    dead = receive_one(kept.dead_letter_receiver(QUEUE))
    assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"


def test_restart_ends_locks_without_counting(kept):
    """SB-Q-1207 a message locked at the restart is free after it, count unchanged."""
    _send(kept, "x")
    receiver = kept.receiver(QUEUE)
    message = receive_one(receiver)
    _restart(kept)
    receiver = kept.receiver(QUEUE)
    again = receive_one(receiver)
    assert (text_of(again), again.delivery_count) == ("x", 0)
    with pytest.raises(MessageLockLostError):
        receiver.complete_message(message)
    receiver.complete_message(again)


def test_restart_goes_on_with_sequence_numbers(kept):
    """SB-Q-1208 numbers are not used again, even if the queue was empty."""
    _send(kept, "a", "b")
    receiver = kept.receiver(QUEUE)
    for message in receive(receiver, 2):
        receiver.complete_message(message)
    _restart(kept)
    _send(kept, "c")
    assert receive_one(kept.receiver(QUEUE)).sequence_number == 3


def test_restart_keeps_the_clock_of_a_time_to_live(kept):
    """SB-Q-1209 a message with a time to live still expires after the restart."""
    message = ServiceBusMessage("short", time_to_live=timedelta(seconds=30))
    kept.sender(QUEUE).send_messages(message)
    _send(kept, "long")
    _restart(kept)
    kept.bus.advance(31)
    assert text_of(receive_one(kept.receiver(QUEUE))) == "long"


def test_restart_keeps_queue_settings(kept):
    """SB-Q-1210 the lock duration of the queue is the same after the restart."""
    _send(kept, "x")
    _restart(kept)
    message = receive_one(kept.receiver(QUEUE))
    left = (message.locked_until_utc - kept.bus.now()).total_seconds()
    assert 290 < left <= 300.001


def test_bus_can_be_restarted_repeatedly(kept):
    """SB-Q-1211 three restarts, each after a send: nothing lost, nothing doubled."""
    for number in range(3):
        _send(kept, f"m{number}")
        _restart(kept)
    assert texts_of(receive(kept.receiver(QUEUE), 3)) == ["m0", "m1", "m2"]
