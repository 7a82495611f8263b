"""SB-S-2xx: the lock on a session: its end, its renewal, and what ends with it.

The bus's clock is moved. By the wall clock, the SDK still sees a valid lock, so the bus
has to refuse.
"""

from datetime import timedelta

import pytest
from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusMessage,
    ServiceBusReceiveMode,
)
from azure.servicebus.exceptions import (
    MessageNotFoundError,
    ServiceBusError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

from .sdk import ARRIVAL_SECONDS, receive, receive_one, text_of, texts_of

LOCK = timedelta(seconds=30)
LOCK_SECONDS = LOCK.total_seconds()


@pytest.fixture
def queue(make_queue):
    """A session queue with a lock that the cases let run out."""
    return make_queue(requires_session=True, lock_duration=LOCK)


def _send(sdk, queue, *texts, **options):
    sdk.sender(queue).send_messages(
        [ServiceBusMessage(text, session_id="a", **options) for text in texts]
    )


def _held(sdk, queue, *texts):
    """A receiver that holds the session of these messages, and the messages."""
    _send(sdk, queue, *texts)
    receiver = sdk.session_receiver(queue, "a")
    return receiver, receive(receiver, len(texts))


@pytest.mark.parametrize(
    "action",
    ["complete_message", "abandon_message", "defer_message", "dead_letter_message"],
)
def test_settling_after_the_session_was_lost(sdk, bus, queue, action):
    """SB-S-201 every settlement raises `SessionLockLostError`."""
    receiver, [message] = _held(sdk, queue, "x")
    bus.advance(LOCK_SECONDS + 1)
    with pytest.raises(SessionLockLostError):
        getattr(receiver, action)(message)


def test_receiver_of_a_lost_session_is_told(sdk, bus, queue):
    """SB-S-202 its link is detached: receiving raises `SessionLockLostError`."""
    receiver, _ = _held(sdk, queue, "x")
    bus.advance(LOCK_SECONDS + 1)
    with pytest.raises(SessionLockLostError):
        receiver.receive_messages(max_wait_time=ARRIVAL_SECONDS)


def test_lost_session_counts_the_delivery(sdk, bus, queue):
    """SB-S-203 what was delivered comes again with a higher count, in order."""
    _held(sdk, queue, "x", "y")
    _send(sdk, queue, "z")
    bus.advance(LOCK_SECONDS + 1)
    receiver = sdk.session_receiver(queue, NEXT_AVAILABLE_SESSION)
    messages = receive(receiver, 3)
    assert texts_of(messages) == ["x", "y", "z"]
    assert [message.delivery_count for message in messages] == [1, 1, 0]


def test_session_lost_too_often_dead_letters_its_messages(sdk, bus, make_queue):
    """SB-S-204 the limit on deliveries holds for lost sessions, too."""
    queue = make_queue(requires_session=True, lock_duration=LOCK, max_delivery_count=1)
    _held(sdk, queue, "x")
    bus.advance(LOCK_SECONDS + 1)
    letter = receive_one(sdk.dead_letter_receiver(queue))
    assert letter.dead_letter_reason == "MaxDeliveryCountExceeded"


def test_renewed_session_lasts(sdk, bus, queue):
    """SB-S-205 renewal gives a full duration, and the messages stay locked."""
    receiver, [message] = _held(sdk, queue, "x")
    before = receiver.session.locked_until_utc
    bus.advance(20)
    renewed_until = receiver.session.renew_lock()
    assert renewed_until == receiver.session.locked_until_utc
    assert 19 < (renewed_until - before).total_seconds() < 25
    bus.advance(20)
    receiver.complete_message(message)
    assert receiver.peek_messages(sequence_number=1) == []


def test_lost_session_cannot_be_renewed(sdk, bus, queue):
    """SB-S-206 `SessionLockLostError`."""
    receiver, _ = _held(sdk, queue, "x")
    bus.advance(LOCK_SECONDS + 1)
    with pytest.raises(SessionLockLostError):
        receiver.session.renew_lock()


def test_old_holder_cannot_settle_for_the_new_one(sdk, bus, queue):
    """SB-S-207 the new holder's lock stands."""
    old, [message] = _held(sdk, queue, "x")
    bus.advance(LOCK_SECONDS + 1)
    new = sdk.session_receiver(queue, "a")
    again = receive_one(new)
    with pytest.raises(SessionLockLostError):
        old.complete_message(message)
    new.complete_message(again)


def test_deferred_message_is_received_within_its_session(sdk, queue):
    """SB-S-208 by number, under the session's lock; order goes on without it."""
    receiver, [first, second] = _held(sdk, queue, "1", "2")
    receiver.defer_message(first)
    receiver.complete_message(second)
    [deferred] = receiver.receive_deferred_messages(first.sequence_number)
    assert text_of(deferred) == "1"
    receiver.complete_message(deferred)
    with pytest.raises(MessageNotFoundError):
        receiver.receive_deferred_messages(first.sequence_number)


def test_deferred_message_of_another_session_is_not_found(sdk, queue):
    """SB-S-209 a session's receiver sees its own alone."""
    receiver, [message] = _held(sdk, queue, "x")
    receiver.defer_message(message)
    other = sdk.session_receiver(queue, "b")
    with pytest.raises(MessageNotFoundError):
        other.receive_deferred_messages(message.sequence_number)


def test_deferred_message_needs_the_lock_of_its_session(sdk, bus, queue):
    """SB-S-210 `SessionLockLostError` once it is lost."""
    receiver, [message] = _held(sdk, queue, "x")
    receiver.defer_message(message)
    bus.advance(LOCK_SECONDS + 1)
    with pytest.raises(SessionLockLostError):
        receiver.receive_deferred_messages(message.sequence_number)


def test_deferred_message_survives_its_session(sdk, queue):
    """SB-S-211 locked or not when the session is closed: it is there afterwards."""
    receiver, [message] = _held(sdk, queue, "x")
    receiver.defer_message(message)
    receiver.receive_deferred_messages(message.sequence_number)
    receiver.close()
    receiver = sdk.session_receiver(queue, "a")
    [deferred] = receiver.receive_deferred_messages(message.sequence_number)
    assert (text_of(deferred), deferred.delivery_count) == ("x", 0)


def test_message_in_a_held_session_expires(sdk, bus, queue):
    """SB-S-212 one that waits does; one that is locked does not."""
    _send(sdk, queue, "locked", time_to_live=timedelta(seconds=5))
    receiver = sdk.session_receiver(queue, "a")
    locked = receive_one(receiver)
    _send(sdk, queue, "waits", time_to_live=timedelta(seconds=5))
    _send(sdk, queue, "stays")
    bus.advance(10)
    assert text_of(receive_one(receiver)) == "stays"
    receiver.complete_message(locked)


def test_message_in_a_free_session_expires(sdk, bus, make_queue):
    """SB-S-213 and nobody gets a session that has only such messages."""
    queue = make_queue(requires_session=True, dead_lettering_on_message_expiration=True)
    _send(sdk, queue, "short", time_to_live=timedelta(seconds=5))
    sdk.sender(queue).send_messages(ServiceBusMessage("long", session_id="b"))
    bus.advance(10)
    receiver = sdk.session_receiver(queue, NEXT_AVAILABLE_SESSION)
    assert receiver.session.session_id == "b"
    letter = receive_one(sdk.dead_letter_receiver(queue))
    assert (text_of(letter), letter.session_id) == ("short", "a")


def test_deleted_queue_ends_held_sessions_and_waiting(sdk, bus, queue):
    """SB-S-214 the receiver is told that the queue is gone."""
    receiver, _ = _held(sdk, queue, "x")
    bus.delete_queue(queue)
    with pytest.raises(ServiceBusError, match="could not be found"):
        receiver.receive_messages(max_wait_time=ARRIVAL_SECONDS)


def test_renewer_keeps_a_session(sdk, bus, queue):
    """SB-S-215 `AutoLockRenewer` takes a session."""
    receiver, [message] = _held(sdk, queue, "x")
    with sdk.renewer() as renewer:
        renewer.register(receiver, receiver.session, max_lock_renewal_duration=300)
        receiver.session.renew_lock()
    receiver.complete_message(message)


def test_receive_and_delete_keeps_its_session(sdk, bus, queue):
    """SB-S-216 nothing is locked, so nothing is lost when the lock's time is over."""
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    receiver = sdk.session_receiver(queue, "a", receive_mode=mode)
    bus.advance(LOCK_SECONDS + 1)
    _send(sdk, queue, "x")
    assert text_of(receive_one(receiver)) == "x"
    with pytest.raises(SessionCannotBeLockedError):
        sdk.session_receiver(queue, "a")
