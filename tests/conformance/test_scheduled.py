"""SB-Q-8xx: scheduled messages: hidden until due, then like new; cancelling them."""

from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageState
from azure.servicebus.exceptions import ServiceBusError

from .sdk import (
    assert_nothing_to_receive,
    receive,
    receive_one,
    text_of,
    texts_of,
)
from .setups import own_numbers

SOON_SECONDS = 20


@pytest.fixture
def soon(bus):
    """A moment that the cases then let come."""
    return bus.now() + timedelta(seconds=SOON_SECONDS)


def test_schedule_returns_a_sequence_number(sdk, queue, soon):
    """SB-Q-801 scheduling one message gives one number, the next of the queue."""
    sender = sdk.sender(queue)
    assert list(sender.schedule_messages(ServiceBusMessage("x"), soon)) == [1]


def test_schedule_of_many_returns_numbers_in_order(sdk, queue, soon):
    """SB-Q-802 scheduling a list gives the numbers in the order of the list."""
    batch = [ServiceBusMessage(t) for t in "abc"]
    numbers = list(sdk.sender(queue).schedule_messages(batch, soon))
    assert numbers == [1, 2, 3]
    peeked = sdk.receiver(queue).peek_messages(5)
    assert {m.sequence_number: text_of(m) for m in peeked} == {1: "a", 2: "b", 3: "c"}


def test_scheduled_message_is_invisible_until_due(sdk, bus, queue, soon):
    """SB-Q-803 not delivered before its time, delivered from then on."""
    sdk.sender(queue).schedule_messages(ServiceBusMessage("x"), soon)
    receiver = sdk.receiver(queue)
    bus.advance(SOON_SECONDS - 5)
    assert_nothing_to_receive(receiver)
    bus.advance(6)
    assert text_of(receive_one(receiver)) == "x"


def test_waiting_receiver_gets_the_message_when_due(sdk, bus, queue, soon):
    """SB-Q-804 a receiver that was waiting already gets it too."""
    sdk.sender(queue).schedule_messages(ServiceBusMessage("x"), soon)
    receiver = sdk.receiver(queue, prefetch_count=1)
    assert_nothing_to_receive(receiver)
    bus.advance(SOON_SECONDS + 1)
    assert text_of(receive_one(receiver)) == "x"


@own_numbers
def test_activated_message_has_a_new_number_and_time(sdk, bus, queue, soon):
    """SB-Q-805 at activation: a new sequence number, enqueued time = activation."""
    sender, receiver = sdk.sender(queue), sdk.receiver(queue)
    (scheduled_number,) = sender.schedule_messages(ServiceBusMessage("later"), soon)
    sender.send_messages(ServiceBusMessage("now"))
    bus.advance(SOON_SECONDS + 1)
    now, later = receive(receiver, 2)
    assert (text_of(now), text_of(later)) == ("now", "later")
    assert later.sequence_number > now.sequence_number > scheduled_number
    assert later.enqueued_time_utc >= soon - timedelta(milliseconds=1)
    assert now.enqueued_time_utc < soon
    assert later.state == ServiceBusMessageState.ACTIVE
    assert later.delivery_count == 0


def test_scheduled_messages_come_in_the_order_of_their_times(sdk, bus, queue):
    """SB-Q-806 the earlier time is delivered first, whatever was scheduled first."""
    sender = sdk.sender(queue)
    for text, seconds in (("third", 30), ("first", 10), ("second", 20)):
        due = bus.now() + timedelta(seconds=seconds)
        sender.schedule_messages(ServiceBusMessage(text), due)
    bus.advance(31)
    messages = receive(sdk.receiver(queue), 3)
    assert texts_of(messages) == ["first", "second", "third"]


def test_schedule_in_the_past_is_delivered_at_once(sdk, bus, queue):
    """SB-Q-807 a time that has passed means now."""
    due = bus.now() - timedelta(minutes=1)
    sdk.sender(queue).schedule_messages(ServiceBusMessage("x"), due)
    assert text_of(receive_one(sdk.receiver(queue))) == "x"


def test_message_sent_with_a_schedule_time_is_scheduled(sdk, bus, queue, soon):
    """SB-Q-808 a plain send with `scheduled_enqueue_time_utc` schedules too."""
    message = ServiceBusMessage("x", scheduled_enqueue_time_utc=soon)
    sdk.sender(queue).send_messages(message)
    receiver = sdk.receiver(queue)
    (peeked,) = receiver.peek_messages()
    assert peeked.state == ServiceBusMessageState.SCHEDULED
    assert peeked.scheduled_enqueue_time_utc == _whole_milliseconds(soon)
    assert_nothing_to_receive(receiver)
    bus.advance(SOON_SECONDS + 1)
    assert text_of(receive_one(receiver)) == "x"


def test_batch_may_mix_scheduled_and_immediate_messages(sdk, bus, queue, soon):
    """SB-Q-809 in one batch each message has its own time."""
    batch = [
        ServiceBusMessage("later", scheduled_enqueue_time_utc=soon),
        ServiceBusMessage("now"),
    ]
    sdk.sender(queue).send_messages(batch)
    receiver = sdk.receiver(queue)
    assert text_of(receive_one(receiver)) == "now"
    bus.advance(SOON_SECONDS + 1)
    assert text_of(receive_one(receiver)) == "later"


def test_scheduled_message_keeps_its_content(sdk, bus, queue, soon):
    """SB-Q-810 properties survive scheduling, the schedule time included."""
    message = ServiceBusMessage(
        "x", message_id="m", subject="s", application_properties={"k": "v"}
    )
    sdk.sender(queue).schedule_messages(message, soon)
    bus.advance(SOON_SECONDS + 1)
    seen = receive_one(sdk.receiver(queue))
    assert (text_of(seen), seen.message_id, seen.subject) == ("x", "m", "s")
    assert seen.application_properties == {b"k": b"v"}
    assert seen.scheduled_enqueue_time_utc == _whole_milliseconds(soon)


def test_cancelled_message_never_comes(sdk, bus, queue, soon):
    """SB-Q-811 cancel one of three: the other two are delivered."""
    sender = sdk.sender(queue)
    batch = [ServiceBusMessage(t) for t in "abc"]
    numbers = list(sender.schedule_messages(batch, soon))
    sender.cancel_scheduled_messages(numbers[1])
    bus.advance(SOON_SECONDS + 1)
    assert texts_of(receive(sdk.receiver(queue), 2)) == ["a", "c"]
    assert_nothing_to_receive(sdk.receiver(queue))


def test_several_messages_are_cancelled_at_once(sdk, queue, soon):
    """SB-Q-812 cancel a list of numbers."""
    sender = sdk.sender(queue)
    batch = [ServiceBusMessage(t) for t in "abc"]
    numbers = list(sender.schedule_messages(batch, soon))
    sender.cancel_scheduled_messages(numbers)
    assert sdk.receiver(queue).peek_messages(5) == []


def test_cancelling_an_activated_message_is_refused(sdk, bus, queue, soon):
    """SB-Q-813 after activation the number is not valid any more; nothing is lost."""
    sender = sdk.sender(queue)
    (number,) = sender.schedule_messages(ServiceBusMessage("x"), soon)
    bus.advance(SOON_SECONDS + 1)
    with pytest.raises(ServiceBusError):
        sender.cancel_scheduled_messages(number)
    assert text_of(receive_one(sdk.receiver(queue))) == "x"


def test_cancelling_an_unknown_number_is_refused(sdk, queue, soon):
    """SB-Q-814 a list with an unknown number raises and cancels nothing."""
    sender = sdk.sender(queue)
    (number,) = sender.schedule_messages(ServiceBusMessage("x"), soon)
    with pytest.raises(ServiceBusError):
        sender.cancel_scheduled_messages([number, 4711])
    assert texts_of(sdk.receiver(queue).peek_messages(5)) == ["x"]


def _whole_milliseconds(moment):
    """Times on the wire have whole milliseconds."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
