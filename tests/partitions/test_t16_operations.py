"""T16: a message on a partitioned entity costs no more operations than on another one.

What is billed is what clients did to messages, as the operation log has it: the same
work is done on a conventional and on a partitioned entity.
"""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)

from twinbus.broker import operation_log
from twinbus.broker.operation_record import decode_operations
from twinbus.owner.store_owner import StoreOwner
from twinbus.testing import Bus

COUNT = 24
PATIENCE_SECONDS = 10

Work = Callable[[Bus, ServiceBusClient, str], None]


async def operations(owner: StoreOwner) -> list[tuple[int, bytes]]:
    async with owner.reading:
        return await owner.store.operations(0, 100_000)


def logged(bus: Bus) -> Counter[int]:
    """How many messages each operation was done to, in all stores.

    The SDK gives back what reaches it when no receive call is waiting, so how often a
    message is locked and released unseen depends on the load of the machine, on each
    kind of entity."""
    found: Counter[int] = Counter()
    for owner in bus.server.owners:
        for _, blob in bus._run(operations(owner)):
            for run in decode_operations(blob).runs:
                found[run.operation] += run.message_count
    found[operation_log.LOCK] -= found.pop(operation_log.RELEASE, 0)
    return found


def take(client: ServiceBusClient, queue: str, count: int, **options: Any) -> None:
    """Receive and complete so many messages."""
    with client.get_queue_receiver(queue, **options) as receiver:
        while count:
            found = receiver.receive_messages(count, max_wait_time=PATIENCE_SECONDS)
            assert found, f"{count} more messages were expected"
            for message in found:
                receiver.complete_message(message)
            count -= len(found)


def send(client: ServiceBusClient, queue: str, **fields: Any) -> None:
    """One by one: they are in all fragments."""
    with client.get_queue_sender(queue) as sender:
        for number in range(COUNT):
            sender.send_messages(ServiceBusMessage(str(number), **fields))


def use_queue(bus: Bus, client: ServiceBusClient, queue: str) -> None:
    send(client, queue)
    with client.get_queue_receiver(queue) as receiver:
        for number in range(COUNT):
            [message] = receiver.receive_messages(1, max_wait_time=PATIENCE_SECONDS)
            if number == 0:
                receiver.renew_message_lock(message)
                receiver.defer_message(message)
                [message] = receiver.receive_deferred_messages(message.sequence_number)
                receiver.complete_message(message)
            elif number == 1:
                receiver.dead_letter_message(message)
            else:
                receiver.complete_message(message)
    take(client, queue, 1, sub_queue=ServiceBusSubQueue.DEAD_LETTER)


def use_batches(bus: Bus, client: ServiceBusClient, queue: str) -> None:
    with client.get_queue_sender(queue) as sender:
        for _ in range(4):
            sender.send_messages([ServiceBusMessage("x")] * 10)
    take(client, queue, 40)


def prefetch(bus: Bus, client: ServiceBusClient, queue: str) -> None:
    send(client, queue)
    take(client, queue, COUNT, prefetch_count=COUNT)


def receive_and_delete(bus: Bus, client: ServiceBusClient, queue: str) -> None:
    send(client, queue)
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with client.get_queue_receiver(queue, receive_mode=mode) as receiver:
        left = COUNT
        while left:
            left -= len(receiver.receive_messages(5, max_wait_time=PATIENCE_SECONDS))


def schedule(bus: Bus, client: ServiceBusClient, queue: str) -> None:
    due = bus.now() + timedelta(minutes=1)
    with client.get_queue_sender(queue) as sender:
        messages = [ServiceBusMessage(str(n), partition_key=str(n)) for n in range(10)]
        numbers = sender.schedule_messages(messages, due)
        sender.cancel_scheduled_messages(numbers[:5])
    bus.advance(timedelta(minutes=2))
    take(client, queue, 5)


@pytest.mark.parametrize(
    "work", [use_queue, use_batches, prefetch, receive_and_delete, schedule]
)
def test_t16_queue_costs_the_same_if_it_is_partitioned(
    bus: Bus, client: ServiceBusClient, make_queue: Callable[..., str], work: Work
) -> None:
    costs = []
    for is_partitioned in (False, True):
        queue = make_queue(enable_partitioning=is_partitioned)
        before = logged(bus)
        work(bus, client, queue)
        costs.append(logged(bus) - before)
    conventional, partitioned = costs
    assert conventional, "nothing was logged"
    assert partitioned == conventional


def test_t16_sessions_cost_the_same(
    bus: Bus, client: ServiceBusClient, make_queue: Callable[..., str]
) -> None:
    costs = []
    for is_partitioned in (False, True):
        queue = make_queue(enable_partitioning=is_partitioned, requires_session=True)
        before = logged(bus)
        for session in ("red", "green", "blue"):
            send(client, queue, session_id=session)
            take(client, queue, COUNT, session_id=session)
        costs.append(logged(bus) - before)
    assert costs[0] == costs[1]


def test_t16_duplicates_cost_the_same(
    bus: Bus, client: ServiceBusClient, make_queue: Callable[..., str]
) -> None:
    costs = []
    for is_partitioned in (False, True):
        queue = make_queue(
            enable_partitioning=is_partitioned, requires_duplicate_detection=True
        )
        before = logged(bus)
        send(client, queue, message_id="same")
        take(client, queue, 1)
        costs.append(logged(bus) - before)
    assert costs[0] == costs[1]
    assert costs[0][operation_log.DUPLICATE] == COUNT - 1


def test_t16_topics_cost_the_same(bus: Bus, client: ServiceBusClient) -> None:
    costs = []
    for topic, is_partitioned in (("plain", False), ("spread", True)):
        bus.create_topic(topic, enable_partitioning=is_partitioned)
        for name in ("first", "second"):
            bus.create_subscription(topic, name)
        before = logged(bus)
        with client.get_topic_sender(topic) as sender:
            for number in range(COUNT):
                sender.send_messages(ServiceBusMessage(str(number)))
        for name in ("first", "second"):
            take(client, f"{topic}/Subscriptions/{name}", COUNT)
        costs.append(logged(bus) - before)
    assert costs[0] == costs[1]
