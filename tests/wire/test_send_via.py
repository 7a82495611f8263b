"""SB-W-11xx: sending through another entity, in transactions and outside of them."""

import time

import pytest

from .codec import Symbol, Uint
from .frames import LinkRefused
from .management import Cbs, Management, sas_token
from .message import data_message
from .transactions import Controller, send_in, settle_in

DESTINATION = Symbol("com.microsoft:transfer-destination-address")


def sender_via(peer, way, destination):
    return peer.sender(way, properties={DESTINATION: destination})


@pytest.fixture
def way(queue):
    return queue


@pytest.fixture
def destination(make_queue):
    return make_queue()


def transfer_dead_letters(way):
    return f"{way}/$Transfer/$DeadLetterQueue"


def test_message_goes_to_the_destination(peer, way, destination, texts):
    """SB-W-1101 and not to the entity that the link is attached to."""
    sender_via(peer, way, destination).send(data_message("x"))
    assert (texts(way), texts(destination)) == ([], ["x"])


def test_address_of_the_destination_may_be_a_uri(peer, way, destination, texts):
    """SB-W-1102 as of any link."""
    address = f"amqps://localhost/{destination}"
    sender_via(peer, way, address).send(data_message("x"))
    assert texts(destination) == ["x"]


def test_transaction_over_way_and_destination(peer, way, destination, texts):
    """SB-W-1103 the pattern it was made for: receive, send on, complete."""
    peer.sender(way).send(data_message("in"))
    receiver = peer.receiver(way)
    [delivery] = receiver.take()
    sender, controller = sender_via(peer, way, destination), Controller(peer)
    for is_committed in (False, True):
        txn_id = controller.declare()
        assert settle_in(txn_id, receiver, delivery.delivery_id) is None
        assert send_in(txn_id, sender, data_message("out")) is None
        assert (texts(way), texts(destination)) == (["in"], [])
        if is_committed:
            assert controller.commit(txn_id) is None
        else:
            assert controller.roll_back(txn_id) is None
    assert (texts(way), texts(destination)) == ([], ["out"])


def test_missing_destination_leaves_the_message_at_the_way(peer, way, texts):
    """SB-W-1104 in its transfer dead-letter queue, with the reason."""
    sender_via(peer, way, "no-such-queue").send(data_message("x"))
    dead_letters = Management(peer, transfer_dead_letters(way))
    [message] = dead_letters.peek(1, 10)
    assert message.text == "x"
    properties = message.application_properties
    assert properties["DeadLetterReason"] == "TransferFailed"
    assert (
        "'no-such-queue' could not be found"
        in (properties["DeadLetterErrorDescription"])
    )
    assert texts(way) == []


def test_transaction_does_not_fail_because_of_the_destination(
    bus, peer, way, destination, texts
):
    """SB-W-1105 deleted before the commit: what was for it stays at the way."""
    sender, controller = sender_via(peer, way, destination), Controller(peer)
    txn_id = controller.declare()
    assert send_in(txn_id, sender, data_message("x")) is None
    bus.delete_queue(destination)
    assert controller.commit(txn_id) is None
    assert texts(transfer_dead_letters(way)) == ["x"]


def test_disabled_destination_is_no_destination(peer, way, make_queue, texts):
    """SB-W-1106 its status lets nothing in."""
    closed = make_queue(status="SendDisabled")
    sender_via(peer, way, closed).send(data_message("x"))
    assert texts(transfer_dead_letters(way)) == ["x"]
    assert texts(closed) == []


def test_transfer_dead_letters_are_received(peer, way):
    """SB-W-1107 like those of any queue."""
    sender_via(peer, way, "no-such-queue").send(data_message("x"))
    receiver = peer.receiver(transfer_dead_letters(way))
    [delivery] = receiver.take()
    assert delivery.message.text == "x"


def test_destination_needs_a_claim_of_its_own(bus, anonymous, way, destination):
    """SB-W-1108 the right to send to the way is not enough."""
    stranger = anonymous()
    audience = f"sb://localhost/{way}"
    token = sas_token(audience, bus.key_name, bus.key, time.time() + 600)
    assert Cbs(stranger).put_token(audience, token).status == 202
    stranger.sender(way)
    with pytest.raises(LinkRefused) as refusal:
        sender_via(stranger, way, destination)
    assert refusal.value.error.condition == "amqp:unauthorized-access"


def test_destination_that_is_no_text_is_refused(peer, way):
    """SB-W-1109 by the attach."""
    with pytest.raises(LinkRefused) as refusal:
        sender_via(peer, way, Uint(5))
    assert refusal.value.error.condition == "com.microsoft:argument-error"
