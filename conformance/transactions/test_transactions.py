"""SB-T-1xx: a transaction is all or nothing, and only its commit makes it all."""

import pytest
from proton import Message

from twinbus.testing import Bus

from .client import Refused

UNKNOWN = "amqp:transaction:unknown-id"
MESSAGES_MAX = 100
TOO_OLD_SECONDS = 121


@pytest.fixture
def fill(client):
    """Sends bodies to a queue, outside of any transaction."""

    def send(queue, *bodies):
        sender = client.sender(queue)
        for body in bodies:
            sender.send(Message(body=body))

    return send


def test_commit_over_two_queues_does_all(client, queue, other_queue, fill, visible):
    """SB-T-101 receive from one queue, send to another: both at once."""
    fill(queue, "in")
    received = client.receive(client.receiver(queue))
    transaction = client.declare()
    transaction.send(client.sender(other_queue), Message(body="out"))
    transaction.complete(received)
    transaction.commit()
    assert (visible(queue), visible(other_queue)) == ([], ["out"])


def test_rollback_over_two_queues_does_nothing(
    client, queue, other_queue, fill, visible
):
    """SB-T-102 what was sent vanishes, what was completed is there."""
    fill(queue, "in")
    received = client.receive(client.receiver(queue))
    transaction = client.declare()
    transaction.send(client.sender(other_queue), Message(body="out"))
    transaction.complete(received)
    transaction.rollback()
    assert (visible(queue), visible(other_queue)) == (["in"], [])


def test_sent_message_is_invisible_before_the_commit(client, queue, fill, visible):
    """SB-T-103 neither peeked nor received, and it blocks nobody."""
    transaction = client.declare()
    transaction.send(client.sender(queue), Message(body="later"))
    fill(queue, "now")
    assert visible(queue) == ["now"]
    received = client.receive(client.receiver(queue))
    assert received.message.body == "now"
    transaction.commit()
    assert "later" in visible(queue)


def test_committed_messages_of_one_link_keep_their_order(client, queue, visible):
    """SB-T-104 a transaction does not shuffle."""
    sender = client.sender(queue)
    transaction = client.declare()
    bodies = [f"m{number}" for number in range(10)]
    for body in bodies:
        transaction.send(sender, Message(body=body))
    transaction.commit()
    assert visible(queue) == bodies


def test_complete_is_provisional(client, queue, fill, visible):
    """SB-T-105 a message completed in a transaction is there until the commit."""
    fill(queue, "x")
    received = client.receive(client.receiver(queue))
    transaction = client.declare()
    transaction.complete(received)
    assert visible(queue) == ["x"]
    transaction.commit()
    assert visible(queue) == []


def test_rollback_keeps_the_lock(bus: Bus, client, queue, fill):
    """SB-T-106 not abandoned: nobody else gets it before the lock runs out."""
    fill(queue, "held")
    received = client.receive(client.receiver(queue))
    transaction = client.declare()
    transaction.complete(received)
    transaction.rollback()
    fill(queue, "next")
    receiver = client.receiver(queue)
    assert client.receive(receiver).message.body == "next"
    bus.advance(301)
    again = {client.receive(receiver).message.body for _ in range(2)}
    assert again == {"held", "next"}


def test_rollback_does_not_raise_the_delivery_count(bus: Bus, client, queue, fill):
    """SB-T-107 only the lock that ran out counts."""
    fill(queue, "x")
    received = client.receive(client.receiver(queue))
    transaction = client.declare()
    transaction.complete(received)
    transaction.rollback()
    bus.advance(301)
    again = client.receive(client.receiver(queue))
    assert (again.message.body, again.message.delivery_count) == ("x", 1)


@pytest.mark.parametrize("outcome", ["abandon", "defer", "dead_letter"])
def test_other_outcomes_are_provisional_too(client, queue, fill, visible, outcome):
    """SB-T-108 before the commit nothing of them is seen, after it they happened."""
    fill(queue, "x")
    received = client.receive(client.receiver(queue))
    transaction = client.declare()
    getattr(transaction, outcome)(received)
    dead_letters = f"{queue}/$DeadLetterQueue"
    assert visible(dead_letters) == []
    transaction.commit()
    moved = outcome == "dead_letter"
    assert visible(dead_letters) == (["x"] if moved else [])
    assert visible(queue) == ([] if moved else ["x"])


def test_abandoned_message_returns_after_the_commit(client, queue, fill):
    """SB-T-109 to the front, and with a higher count."""
    fill(queue, "first")
    received = client.receive(client.receiver(queue))
    transaction = client.declare()
    transaction.abandon(received)
    fill(queue, "second")
    receiver = client.receiver(queue)
    assert client.receive(receiver).message.body == "second"
    transaction.commit()
    again = client.receive(receiver)
    assert (again.message.body, again.message.delivery_count) == ("first", 1)


def test_closing_the_connection_rolls_back(dial, queue, other_queue, visible):
    """SB-T-110 a client that is gone committed nothing."""
    leaver = dial()
    leaver.sender(queue).send(Message(body="in"))
    received = leaver.receive(leaver.receiver(queue))
    transaction = leaver.declare()
    transaction.send(leaver.sender(other_queue), Message(body="out"))
    transaction.complete(received)
    leaver.close()
    assert (visible(queue), visible(other_queue)) == (["in"], [])


def test_closing_the_control_link_rolls_back(client, queue, visible):
    """SB-T-111 the link owns its transactions."""
    transaction = client.declare()
    transaction.send(client.sender(queue), Message(body="out"))
    client.close_coordinator()
    assert visible(queue) == []
    later = client.declare()
    later.commit()
    assert visible(queue) == []


def test_commit_of_an_unknown_transaction_is_refused(client):
    """SB-T-112 an id that the bus never gave."""
    transaction = client.declare()
    transaction.forget_id()
    with pytest.raises(Refused) as refusal:
        transaction.commit()
    assert refusal.value.condition == UNKNOWN


def test_second_commit_is_refused(client, queue, visible):
    """SB-T-113 a transaction ends once."""
    transaction = client.declare()
    transaction.send(client.sender(queue), Message(body="x"))
    transaction.commit()
    with pytest.raises(Refused) as refusal:
        transaction.commit()
    assert refusal.value.condition == UNKNOWN
    assert visible(queue) == ["x"]


def test_send_in_an_unknown_transaction_is_refused(client, queue, visible):
    """SB-T-114 and the message is nowhere."""
    transaction = client.declare()
    transaction.forget_id()
    with pytest.raises(Refused) as refusal:
        transaction.send(client.sender(queue), Message(body="x"))
    assert refusal.value.condition == UNKNOWN
    assert visible(queue) == []


def test_message_over_the_limit_is_refused(client, queue, visible):
    """SB-T-115 a hundred messages fit, the next does not; nothing is half done."""
    sender = client.sender(queue)
    transaction = client.declare()
    for number in range(MESSAGES_MAX):
        transaction.send(sender, Message(body=f"m{number}"))
    with pytest.raises(Refused, match=f"{MESSAGES_MAX}"):
        transaction.send(sender, Message(body="one too many"))
    transaction.rollback()
    assert visible(queue) == []


def test_a_hundred_messages_are_committed(client, queue, visible):
    """SB-T-116 the limit itself is allowed."""
    sender = client.sender(queue)
    transaction = client.declare()
    for number in range(MESSAGES_MAX):
        transaction.send(sender, Message(body=f"m{number}"))
    transaction.commit()
    assert len(visible(queue)) == MESSAGES_MAX


def test_transaction_that_is_too_old_is_refused(bus: Bus, client, queue, visible):
    """SB-T-117 after two minutes it has been rolled back."""
    transaction = client.declare()
    transaction.send(client.sender(queue), Message(body="x"))
    bus.advance(TOO_OLD_SECONDS)
    with pytest.raises(Refused) as refusal:
        transaction.commit()
    assert refusal.value.condition.startswith("amqp:transaction:")
    assert visible(queue) == []


def test_two_transactions_at_once_do_not_mix(client, queue, other_queue, visible):
    """SB-T-118 each has its own work, on the same links."""
    sender, other_sender = client.sender(queue), client.sender(other_queue)
    kept, dropped = client.declare(), client.declare()
    assert kept.id != dropped.id
    for transaction, body in ((kept, "kept"), (dropped, "dropped")):
        transaction.send(sender, Message(body=body))
        transaction.send(other_sender, Message(body=body))
    dropped.rollback()
    kept.commit()
    assert (visible(queue), visible(other_queue)) == (["kept"], ["kept"])


def test_committed_transaction_survives_a_restart(
    bus: Bus, client, queue, other_queue, visible
):
    """SB-T-119 durable in both queues when the commit is answered."""
    transaction = client.declare()
    for name in (queue, other_queue):
        transaction.send(client.sender(name), Message(body=name))
    transaction.commit()
    client.close()
    bus.restart()
    assert (visible(queue), visible(other_queue)) == ([queue], [other_queue])
