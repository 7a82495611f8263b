"""SB-Q-4xx: message locks over time: expiry, renewal, the limit on deliveries.

The bus's clock is moved. By the wall clock, the SDK still sees a valid lock, so the bus
has to refuse.
"""

from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessageLockLostError

from .sdk import assert_nothing_to_receive, eventually, receive_one, text_of, texts_of

LOCK = timedelta(seconds=30)
LOCK_SECONDS = LOCK.total_seconds()


@pytest.fixture
def queue(make_queue):
    """A queue with a lock that the cases let run out."""
    return make_queue(lock_duration=LOCK)


def _locked(sdk, queue):
    sdk.sender(queue).send_messages(ServiceBusMessage("x"))
    receiver = sdk.receiver(queue)
    return receiver, receive_one(receiver)


def test_lock_lasts_for_the_lock_duration(sdk, bus, queue):
    """SB-Q-401 `locked_until_utc` is the time of delivery plus the lock duration."""
    _, message = _locked(sdk, queue)
    left = (message.locked_until_utc - bus.now()).total_seconds()
    assert LOCK_SECONDS - 5 < left <= LOCK_SECONDS + 0.001


@pytest.mark.parametrize(
    "action",
    ["complete_message", "abandon_message", "defer_message", "dead_letter_message"],
)
def test_settling_after_lock_expiry_raises_lock_lost(sdk, bus, queue, action):
    """SB-Q-402 every settlement after expiry raises `MessageLockLostError`."""
    receiver, message = _locked(sdk, queue)
    bus.advance(LOCK_SECONDS + 1)
    with pytest.raises(MessageLockLostError):
        getattr(receiver, action)(message)


def test_expired_lock_means_redelivery_with_higher_count(sdk, bus, queue):
    """SB-Q-403 after expiry the message is delivered again, count + 1."""
    receiver, message = _locked(sdk, queue)
    token = message.lock_token
    bus.advance(LOCK_SECONDS + 1)
    again = receive_one(receiver)
    assert (text_of(again), again.delivery_count) == ("x", 1)
    assert again.sequence_number == message.sequence_number
    assert again.lock_token != token


def test_lost_lock_does_not_settle_the_new_delivery(sdk, bus, queue):
    """SB-Q-404 the old token is refused while the new holder keeps its lock."""
    first, old = _locked(sdk, queue)
    second = sdk.receiver(queue)
    bus.advance(LOCK_SECONDS + 1)
    new = receive_one(second)
    with pytest.raises(MessageLockLostError):
        first.complete_message(old)
    second.complete_message(new)
    assert second.peek_messages(sequence_number=1) == []


def test_lock_is_kept_until_it_expires(sdk, bus, queue):
    """SB-Q-405 shortly before expiry nobody else gets it and it can be completed."""
    receiver, message = _locked(sdk, queue)
    bus.advance(LOCK_SECONDS - 10)
    assert_nothing_to_receive(sdk.receiver(queue))
    receiver.complete_message(message)
    assert receiver.peek_messages(sequence_number=1) == []


def test_expired_message_comes_before_later_ones(sdk, bus, queue):
    """SB-Q-406 a message whose lock ran out is again at the front."""
    sender, receiver = sdk.sender(queue), sdk.receiver(queue)
    sender.send_messages(ServiceBusMessage("first"))
    receive_one(receiver)
    sender.send_messages(ServiceBusMessage("second"))
    bus.advance(LOCK_SECONDS + 1)
    assert text_of(receive_one(receiver)) == "first"


def test_renewed_lock_lasts_longer(sdk, bus, queue):
    """SB-Q-407 renew gives now + lock duration, and the message can be settled then."""
    receiver, message = _locked(sdk, queue)
    before = message.locked_until_utc
    bus.advance(LOCK_SECONDS - 10)
    renewed = receiver.renew_message_lock(message)
    assert renewed == message.locked_until_utc
    assert (renewed - before).total_seconds() >= LOCK_SECONDS - 10.001
    bus.advance(LOCK_SECONDS - 10)
    receiver.complete_message(message)
    assert receiver.peek_messages(sequence_number=1) == []


def test_renewing_an_expired_lock_raises_lock_lost(sdk, bus, queue):
    """SB-Q-408 a lock that has run out cannot be renewed."""
    receiver, message = _locked(sdk, queue)
    bus.advance(LOCK_SECONDS + 1)
    with pytest.raises(MessageLockLostError):
        receiver.renew_message_lock(message)


def test_renewing_keeps_count_and_token(sdk, bus, queue):
    """SB-Q-409 renewing many times neither counts nor redelivers."""
    receiver, message = _locked(sdk, queue)
    token = message.lock_token
    for _ in range(3):
        bus.advance(LOCK_SECONDS - 10)
        receiver.renew_message_lock(message)
    assert message.lock_token == token
    (peeked,) = receiver.peek_messages(sequence_number=1)
    assert peeked.delivery_count == 0
    receiver.complete_message(message)


def test_renewing_over_another_receiver_works(sdk, bus, queue):
    """SB-Q-410 a lock belongs to the token, not to the link."""
    first, message = _locked(sdk, queue)
    first.close()
    second = sdk.receiver(queue)
    bus.advance(LOCK_SECONDS - 10)
    second.renew_message_lock(message)
    bus.advance(LOCK_SECONDS - 10)
    second.complete_message(message)
    assert second.peek_messages(sequence_number=1) == []


def test_auto_lock_renewer_keeps_the_lock(own):
    """SB-Q-411 `AutoLockRenewer` renews in time, so the message outlives its lock."""
    # The SDK renews a lock that has ten seconds left, by the clock of the machine.
    own.bus.create_queue("renewed", lock_duration=timedelta(seconds=10))
    own.sender("renewed").send_messages(ServiceBusMessage("x"))
    receiver = own.receiver("renewed", auto_lock_renewer=own.renewer())
    message = receive_one(receiver)
    until = message.locked_until_utc
    # Renewing must show also where the bus's clock stands still between advances.
    own.bus.advance(0.7)
    eventually(lambda: message.locked_until_utc > until, "the lock is renewed")
    left_seconds = (until - own.bus.now()).total_seconds()
    own.bus.advance(max(0.0, left_seconds + 0.3))
    receiver.complete_message(message)
    assert message.auto_renew_error is None
    assert receiver.peek_messages(sequence_number=1) == []


def test_message_over_the_delivery_limit_is_dead_lettered(sdk, make_queue):
    """SB-Q-412 after MaxDeliveryCount deliveries the message is dead-lettered."""
    queue = make_queue(max_delivery_count=3)
    sdk.sender(queue).send_messages(ServiceBusMessage("x"))
    receiver = sdk.receiver(queue)
    for count in range(3):
        message = receive_one(receiver)
        assert message.delivery_count == count
        receiver.abandon_message(message)
    assert receiver.peek_messages(sequence_number=1) == []
    dead = receive_one(sdk.dead_letter_receiver(queue))
    assert text_of(dead) == "x"
    assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"
    description = "Message could not be consumed after 3 delivery attempts."
    assert dead.dead_letter_error_description == description


def test_expired_locks_count_towards_the_delivery_limit(sdk, bus, make_queue):
    """SB-Q-413 lock expiry counts as a delivery: two of two, then dead-lettered."""
    queue = make_queue(max_delivery_count=2, lock_duration=LOCK)
    sdk.sender(queue).send_messages(ServiceBusMessage("x"))
    receiver = sdk.receiver(queue)
    for _ in range(2):
        receive_one(receiver)
        bus.advance(LOCK_SECONDS + 1)
    dead = receive_one(sdk.dead_letter_receiver(queue))
    assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"
    assert receiver.peek_messages(sequence_number=1) == []


def test_renewed_messages_do_not_reach_the_delivery_limit(sdk, bus, make_queue):
    """SB-Q-414 with a limit of one, renewing keeps a message from dead-lettering."""
    queue = make_queue(max_delivery_count=1, lock_duration=LOCK)
    receiver, message = _locked(sdk, queue)
    for _ in range(2):
        bus.advance(LOCK_SECONDS - 10)
        receiver.renew_message_lock(message)
    assert texts_of(receiver.peek_messages(sequence_number=1)) == ["x"]
    receiver.complete_message(message)
    assert sdk.dead_letter_receiver(queue).peek_messages() == []
