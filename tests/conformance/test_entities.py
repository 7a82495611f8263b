"""SB-Q-11xx: finding queues: unknown ones, unusual names, letter case."""

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusAuthenticationError

from .sdk import receive_one, text_of, texts_of


def test_sender_to_an_unknown_queue_is_refused(sdk):
    """SB-Q-1101 a sender to a queue that is not there: entity not found."""
    with pytest.raises(ServiceBusAuthenticationError):
        sdk.sender("no-such-queue")


def test_receiver_of_an_unknown_queue_is_refused(sdk):
    """SB-Q-1102 a receiver of a queue that is not there: entity not found."""
    with pytest.raises(ServiceBusAuthenticationError):
        sdk.receiver("no-such-queue")


def test_dead_letters_of_an_unknown_queue_are_not_found(sdk):
    """SB-Q-1103 the sub-queue of a queue that is not there: entity not found."""
    with pytest.raises(ServiceBusAuthenticationError):
        sdk.dead_letter_receiver("no-such-queue")


def test_unknown_queue_does_not_disturb_the_client(sdk, queue):
    """SB-Q-1104 after the error the same client works with a queue that exists."""
    with pytest.raises(ServiceBusAuthenticationError):
        sdk.sender("no-such-queue")
    sdk.sender(queue).send_messages(ServiceBusMessage("x"))
    assert text_of(receive_one(sdk.receiver(queue))) == "x"


@pytest.mark.parametrize(
    "name", ["a/b/c", "with.dots", "with-dash_and_underscore", "x", "n" * 260]
)
def test_queue_names_of_all_kinds_work(own, name):
    """SB-Q-1105 slashes, dots, dashes, underscores, one letter, the longest name."""
    own.bus.create_queue(name)
    own.sender(name).send_messages(ServiceBusMessage("x"))
    receiver = own.receiver(name)
    message = receive_one(receiver)
    receiver.dead_letter_message(message, reason="r")
    assert texts_of(own.dead_letter_receiver(name).peek_messages()) == ["x"]


def test_queue_names_ignore_letter_case(own):
    """SB-Q-1106 `Orders/EU` is found as `orders/eu` by sender and receiver."""
    own.bus.create_queue("Orders/EU")
    own.sender("orders/eu").send_messages(ServiceBusMessage("x"))
    receiver = own.receiver("ORDERS/eu")
    message = receive_one(receiver)
    assert text_of(message) == "x"
    receiver.defer_message(message)
    (deferred,) = receiver.receive_deferred_messages(message.sequence_number)
    receiver.complete_message(deferred)
    assert own.receiver("Orders/EU").peek_messages() == []


def test_queue_below_another_is_a_queue_of_its_own(own):
    """SB-Q-1107 `a` and `a/b` do not share messages."""
    own.bus.create_queue("a")
    own.bus.create_queue("a/b")
    own.sender("a").send_messages(ServiceBusMessage("to a"))
    own.sender("a/b").send_messages(ServiceBusMessage("to a/b"))
    assert texts_of(own.receiver("a").peek_messages(5)) == ["to a"]
    assert texts_of(own.receiver("a/b").peek_messages(5)) == ["to a/b"]


def test_entity_path_in_the_connection_string_is_used(sdk, queue):
    """SB-Q-1108 a connection string with `EntityPath` names the queue."""
    text = sdk.bus.connection_string.rstrip(";") + f";EntityPath={queue}"
    client = sdk.client(text)
    sdk.sender(queue, client=client).send_messages(ServiceBusMessage("x"))
    assert texts_of(sdk.receiver(queue, client=client).peek_messages()) == ["x"]


def test_many_handlers_share_a_bus(sdk, queue):
    """SB-Q-1109 ten senders and ten receivers at once, each on its own connection."""
    senders = [sdk.sender(queue) for _ in range(10)]
    receivers = [sdk.receiver(queue) for _ in range(10)]
    for number, sender in enumerate(senders):
        sender.send_messages(ServiceBusMessage(str(number)))
    seen = {text_of(receive_one(receiver)) for receiver in receivers}
    assert seen == {str(number) for number in range(10)}
