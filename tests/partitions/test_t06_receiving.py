"""T6: a receiver does not notice that a queue is partitioned."""

from collections.abc import Callable
from datetime import timedelta

from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)

from twinbus.testing import Bus

from .conftest import drained, fragment_of


def send(client: ServiceBusClient, queue: str, count: int) -> None:
    """Each with a commit of its own, so that they are in different fragments."""
    with client.get_queue_sender(queue) as sender:
        for number in range(count):
            sender.send_messages(ServiceBusMessage(str(number)))


def test_t06_one_receive_gets_messages_of_several_fragments(
    client: ServiceBusClient, queue: str
) -> None:
    send(client, queue, 40)
    found = drained(client, queue)
    assert sorted(int(str(one)) for one in found) == list(range(40))
    assert len({fragment_of(one) for one in found}) == 16


def test_t06_settlements_reach_the_message_of_their_fragment(
    client: ServiceBusClient, queue: str
) -> None:
    send(client, queue, 8)
    with client.get_queue_receiver(queue, max_wait_time=5) as receiver:
        messages = []
        while len(messages) < 8:
            messages += receiver.receive_messages(8 - len(messages))
        by_body = {int(str(one)): one for one in messages}
        receiver.complete_message(by_body[0])
        receiver.abandon_message(by_body[1])
        receiver.defer_message(by_body[2])
        receiver.dead_letter_message(by_body[3], reason="broken")
        receiver.renew_message_lock(by_body[4])
        for number in (4, 5, 6, 7):
            receiver.complete_message(by_body[number])
        [deferred] = receiver.receive_deferred_messages(by_body[2].sequence_number)
        assert str(deferred) == "2"
        receiver.complete_message(deferred)
    [again] = drained(client, queue)
    assert (str(again), again.delivery_count) == ("1", 1)
    [dead] = drained(client, queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER)
    assert (str(dead), dead.dead_letter_reason) == ("3", "broken")
    assert fragment_of(dead) == fragment_of(by_body[3])


def test_t06_prefetch_gets_messages_of_all_fragments(
    client: ServiceBusClient, queue: str
) -> None:
    send(client, queue, 30)
    found = drained(client, queue, prefetch_count=50)
    assert sorted(int(str(one)) for one in found) == list(range(30))


def test_t06_receive_and_delete_loses_nothing(
    client: ServiceBusClient, queue: str
) -> None:
    send(client, queue, 30)
    found: list[int] = []
    with client.get_queue_receiver(
        queue, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE
    ) as receiver:
        while messages := receiver.receive_messages(7, max_wait_time=2):
            found += [int(str(one)) for one in messages]
    assert sorted(found) == list(range(30))


def test_t06_waiting_receiver_gets_what_is_sent_later(
    client: ServiceBusClient, queue: str
) -> None:
    with client.get_queue_receiver(queue, max_wait_time=10) as receiver:
        for number in range(5):
            with client.get_queue_sender(queue) as sender:
                sender.send_messages(ServiceBusMessage(str(number)))
            [message] = receiver.receive_messages(1)
            assert str(message) == str(number)
            receiver.complete_message(message)


def test_t06_next_session_comes_from_any_fragment(
    client: ServiceBusClient, make_queue: Callable[..., str]
) -> None:
    queue = make_queue(requires_session=True)
    ids = {f"session-{number}" for number in range(6)}
    with client.get_queue_sender(queue) as sender:
        for session_id in sorted(ids):
            sender.send_messages(ServiceBusMessage("x", session_id=session_id))
    seen = set()
    for _ in ids:
        with client.get_queue_receiver(
            queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=2
        ) as receiver:
            seen.add(receiver.session.session_id)
            for message in receiver:
                receiver.complete_message(message)
    assert seen == ids


def test_t06_subscriptions_of_a_partitioned_topic_get_every_message(
    bus: Bus, client: ServiceBusClient
) -> None:
    bus.create_topic("news", enable_partitioning=True)
    for name in ("first", "second"):
        bus.create_subscription("news", name, lock_duration=timedelta(minutes=5))
    with client.get_topic_sender("news") as sender:
        for number in range(20):
            sender.send_messages(ServiceBusMessage(str(number)))
    for name in ("first", "second"):
        with client.get_subscription_receiver(
            "news", name, max_wait_time=2
        ) as receiver:
            found = []
            while messages := receiver.receive_messages(20, max_wait_time=2):
                found += [int(str(one)) for one in messages]
                for message in messages:
                    receiver.complete_message(message)
        assert sorted(found) == list(range(20))
