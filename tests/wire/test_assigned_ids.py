"""SB-W-22xx: a message sent without an id gets one, the same wherever it is seen.

The SDK for JavaScript cannot settle a message without an id, and its own quick start
sends such messages.
"""

import re
import uuid
from collections.abc import Callable

from twinbus.testing import Bus

from .codec import Array, Symbol, Uint
from .frames import REJECTED, outcome
from .management import Management
from .message import BATCH_FORMAT, Received, batch, data_message, scheduled_message
from .peer import Peer


def id_of(message: Received) -> str:
    """The id that the bus gave."""
    message_id = message.properties["message_id"]
    assert isinstance(message_id, str)
    assert re.fullmatch("[0-9a-f]{32}", message_id), message_id
    return message_id


def test_messages_without_an_id_get_different_ones(peer: Peer, queue: str) -> None:
    """SB-W-2201 with and without properties, alone and in a batch."""
    sender = peer.sender(queue)
    sender.send(data_message("a"))
    sender.send(data_message("b", properties={"subject": "s"}))
    sender.send(
        batch(data_message("c"), data_message("d", properties={"to": "t"})),
        form=BATCH_FORMAT,
    )

    messages = [delivery.message for delivery in peer.receiver(queue).take(4)]

    assert [message.text for message in messages] == ["a", "b", "c", "d"]
    assert len({id_of(message) for message in messages}) == 4
    assert messages[1].properties["subject"] == "s"
    assert messages[3].properties["to"] == "t"


def test_an_id_of_the_sender_stays(peer: Peer, queue: str) -> None:
    """SB-W-2202 whatever its type."""
    given = uuid.UUID(int=5)
    peer.sender(queue).send(data_message("a", properties={"message_id": given}))
    [delivery] = peer.receiver(queue).take()
    assert delivery.message.properties["message_id"] == given


def test_the_id_is_the_same_each_time_and_among_the_dead_letters(
    peer: Peer, queue: str
) -> None:
    """SB-W-2203"""
    peer.sender(queue).send(data_message("a"))
    [peeked] = Management(peer, queue).peek(1, 1)
    receiver = peer.receiver(queue)
    [delivery] = receiver.take()
    receiver.settle(delivery.delivery_id, outcome(REJECTED))
    receiver.verdict_of(delivery.delivery_id)

    [dead] = peer.receiver(f"{queue}/$DeadLetterQueue").take()

    assert id_of(peeked) == id_of(delivery.message) == id_of(dead.message)


def test_a_scheduled_message_keeps_its_id_when_it_is_due(
    bus: Bus, peer: Peer, queue: str
) -> None:
    """SB-W-2204 by a request, and by the annotation."""
    due_at = bus.clock.now() + 60_000
    entry = {"message-id": None, "message": scheduled_message("a", due_at)}
    management = Management(peer, queue)
    answer = management.call("schedule-message", {"messages": [entry]})
    assert isinstance(answer.body["sequence-numbers"], Array)
    peer.sender(queue).send(scheduled_message("b", due_at))
    before = {message.text: id_of(message) for message in management.peek(1, 2)}

    bus.advance(61)
    after = [delivery.message for delivery in peer.receiver(queue).take(2)]

    assert {message.text: id_of(message) for message in after} == before
    assert len(set(before.values())) == 2


def test_an_id_goes_on_with_a_forwarded_message(
    bus: Bus, peer: Peer, make_queue: Callable[..., str]
) -> None:
    """SB-W-2205 copies of a topic have one id, too."""
    target = make_queue()
    topic = f"{target}-topic"
    bus.create_topic(topic)
    bus.create_subscription(topic, "one", forward_to=target)
    bus.create_subscription(topic, "two")
    peer.sender(topic).send(data_message("a"))

    [forwarded] = peer.receiver(target).take()
    [copy] = peer.receiver(f"{topic}/Subscriptions/two").take()

    assert id_of(forwarded.message) == id_of(copy.message)


def test_messages_without_an_id_are_no_duplicates(
    peer: Peer, make_queue: Callable[..., str]
) -> None:
    """SB-W-2206"""
    queue = make_queue(requires_duplicate_detection=True)
    sender = peer.sender(queue)
    for _ in range(2):
        sender.send(data_message("a"))

    messages = [delivery.message for delivery in peer.receiver(queue).take(2)]

    assert len({id_of(message) for message in messages}) == 2


def test_a_long_list_of_properties_gets_an_id(peer: Peer, queue: str) -> None:
    """SB-W-2207 past the short form of a list, with annotations before it."""
    sent = data_message(
        "a",
        header={"priority": None, "ttl": Uint(60_000)},
        annotations={Symbol("k"): "v"},
        properties={"subject": "s" * 300, "reply_to_group_id": "g"},
        application_properties={"p": "v"},
    )
    peer.sender(queue).send(sent)

    [delivery] = peer.receiver(queue).take()

    message = delivery.message
    assert id_of(message)
    assert message.properties["subject"] == "s" * 300
    assert message.properties["reply_to_group_id"] == "g"
    assert (message.annotations[Symbol("k")], message.text) == ("v", "a")
