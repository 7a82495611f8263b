"""SB-Q-5xx: dead-lettering and the dead-letter sub-queue."""

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.exceptions import ServiceBusError

from .sdk import receive, receive_one, text_of, texts_of


def _dead_letter(sdk, queue, **details):
    """Send one message and dead-letter it; gives the receiver that did it."""
    message = ServiceBusMessage("x", message_id="m", application_properties={"k": 1})
    sdk.sender(queue).send_messages(message)
    receiver = sdk.receiver(queue)
    receiver.dead_letter_message(receive_one(receiver), **details)
    return receiver


def test_dead_lettered_message_moves_with_reason_and_description(sdk, queue):
    """SB-Q-501 dead-letter with reason and description; read it in the sub-queue."""
    receiver = _dead_letter(sdk, queue, reason="Broken", error_description="no such id")
    assert receiver.peek_messages(sequence_number=1) == []
    dead = receive_one(sdk.dead_letter_receiver(queue))
    assert dead.dead_letter_reason == "Broken"
    assert dead.dead_letter_error_description == "no such id"
    assert dead.application_properties[b"DeadLetterReason"] == b"Broken"
    assert dead.application_properties[b"DeadLetterErrorDescription"] == b"no such id"


def test_dead_lettered_message_keeps_its_content(sdk, queue):
    """SB-Q-502 body, id and application properties survive dead-lettering."""
    _dead_letter(sdk, queue, reason="r")
    dead = receive_one(sdk.dead_letter_receiver(queue))
    assert (text_of(dead), dead.message_id) == ("x", "m")
    assert dead.application_properties[b"k"] == 1


def test_dead_letter_without_reason_is_accepted(sdk, queue):
    """SB-Q-503 dead-letter with nothing: the SDK sends nulls, none become text."""
    _dead_letter(sdk, queue)
    dead = receive_one(sdk.dead_letter_receiver(queue))
    assert text_of(dead) == "x"
    assert dead.dead_letter_reason is None
    assert dead.dead_letter_error_description is None


def test_dead_letter_with_a_reason_only(sdk, queue):
    """SB-Q-504 dead-letter with a reason and no description."""
    _dead_letter(sdk, queue, reason="only this")
    dead = receive_one(sdk.dead_letter_receiver(queue))
    assert dead.dead_letter_reason == "only this"
    assert dead.dead_letter_error_description is None


def test_dead_letter_over_management_keeps_reason(sdk, queue):
    """SB-Q-505 dead-letter by token, over `$management`, with reason and text."""
    sdk.sender(queue).send_messages(ServiceBusMessage("x"))
    first, second = sdk.receiver(queue), sdk.receiver(queue)
    message = receive_one(first)
    first.close()
    second.dead_letter_message(message, reason="r", error_description="d")
    dead = receive_one(sdk.dead_letter_receiver(queue))
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("r", "d")


def test_dead_letters_can_be_completed(sdk, queue):
    """SB-Q-506 completing in the sub-queue removes the message for good."""
    _dead_letter(sdk, queue, reason="r")
    receiver = sdk.dead_letter_receiver(queue)
    receiver.complete_message(receive_one(receiver))
    assert receiver.peek_messages(sequence_number=1) == []


def test_dead_letters_can_be_received_and_deleted(sdk, queue):
    """SB-Q-507 receive and delete works on the sub-queue."""
    _dead_letter(sdk, queue, reason="r")
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    receiver = sdk.dead_letter_receiver(queue, receive_mode=mode)
    assert text_of(receive_one(receiver)) == "x"
    assert receiver.peek_messages(sequence_number=1) == []


def test_dead_letters_can_be_abandoned_for_ever(sdk, make_queue):
    """SB-Q-508 MaxDeliveryCount is not enforced in the sub-queue, nor counted to."""
    queue = make_queue(max_delivery_count=1)
    _dead_letter(sdk, queue, reason="r")
    receiver = sdk.dead_letter_receiver(queue)
    for _ in range(4):
        message = receive_one(receiver)
        assert message.delivery_count == 0
        receiver.abandon_message(message)
    assert texts_of(receiver.peek_messages(sequence_number=1)) == ["x"]


def test_dead_letters_can_be_deferred(sdk, queue):
    """SB-Q-509 defer and receive by sequence number work on the sub-queue."""
    _dead_letter(sdk, queue, reason="r")
    receiver = sdk.dead_letter_receiver(queue)
    message = receive_one(receiver)
    receiver.defer_message(message)
    (deferred,) = receiver.receive_deferred_messages(message.sequence_number)
    receiver.complete_message(deferred)
    assert receiver.peek_messages(sequence_number=1) == []


def test_dead_letters_keep_their_order(sdk, queue):
    """SB-Q-510 messages come out of the sub-queue in the order they went in."""
    sdk.sender(queue).send_messages([ServiceBusMessage(t) for t in "abc"])
    receiver = sdk.receiver(queue)
    for message in receive(receiver, 3):
        receiver.dead_letter_message(message, reason=text_of(message))
    dead = receive(sdk.dead_letter_receiver(queue), 3)
    assert [m.dead_letter_reason for m in dead] == ["a", "b", "c"]


def test_dead_letter_path_is_reached_as_an_entity_too(sdk, queue):
    """SB-Q-511 `queue/$DeadLetterQueue` as a name, in any case, is the sub-queue."""
    _dead_letter(sdk, queue, reason="r")
    receiver = sdk.receiver(f"{queue}/$deadletterqueue")
    assert text_of(receive_one(receiver)) == "x"


def test_sending_to_the_dead_letter_queue_is_refused(sdk, queue):
    """SB-Q-512 nobody can send to a dead-letter sub-queue."""
    with pytest.raises(ServiceBusError):
        sdk.sender(f"{queue}/$DeadLetterQueue").send_messages(ServiceBusMessage("x"))
    assert sdk.dead_letter_receiver(queue).peek_messages() == []


def test_empty_dead_letter_queue_can_be_peeked(sdk, queue):
    """SB-Q-513 the sub-queue exists from the start and is empty."""
    assert sdk.dead_letter_receiver(queue).peek_messages(10) == []


def test_dead_lettered_message_can_be_sent_again(sdk, queue):
    """SB-Q-514 the usual repair: send the dead letter to the queue, then complete."""
    _dead_letter(sdk, queue, reason="r")
    dead_letters = sdk.dead_letter_receiver(queue)
    dead = receive_one(dead_letters)
    sdk.sender(queue).send_messages(dead)
    dead_letters.complete_message(dead)
    again = receive_one(sdk.receiver(queue))
    assert (text_of(again), again.delivery_count) == ("x", 0)
    assert dead_letters.peek_messages(sequence_number=1) == []
