"""One bus for many tests, and the SDK without its pauses."""

import time
from collections.abc import Callable

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus import _servicebus_sender as sdk_sender
from azure.servicebus.aio import ServiceBusClient as AsyncClient
from azure.servicebus.exceptions import ServiceBusError

from twinbus.testing import Bus, hurried_sdk

SEEN: list[Bus] = []


def round_trip(bus: Bus, queue: str = "orders") -> list[str]:
    """What a test usually does: connect, send, receive, close."""
    client = ServiceBusClient.from_connection_string(bus.connection_string)
    with client, client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("hello"))
        with client.get_queue_receiver(queue) as receiver:
            messages = receiver.receive_messages(1, max_wait_time=10)
            for message in messages:
                receiver.complete_message(message)
            return [str(message) for message in messages]


@pytest.mark.parametrize("number", range(2))
def test_shared_bus_has_nothing_of_earlier_tests(
    twinbus_clean_bus: Bus, number: int
) -> None:
    bus = twinbus_clean_bus
    SEEN.append(bus)
    assert all(bus is earlier for earlier in SEEN)
    assert bus.server.namespace.entities() == []
    assert list(bus.faults.active()) == []
    assert abs(bus.clock.now() - time.time_ns() // 1_000_000) < 60_000
    bus.create_queue("orders")
    bus.create_topic("news")
    bus.create_subscription("news", "all")
    bus.faults.set("refuse", operations=["send"], entity="other")
    bus.advance(7200)


def test_reset_works_with_every_store() -> None:
    for store, stores in (("sqlite", 1), ("sqlite", 2), ("memory", 2)):
        with Bus(store=store, stores=stores) as bus:
            for number in range(5):
                bus.create_queue(f"queue-{number}")
            bus.create_queue("large", enable_partitioning=True)
            bus.reset()
            assert bus.server.namespace.entities() == []
            if store == "sqlite":
                bus.restart()
                assert bus.server.namespace.entities() == []


def test_entities_of_before_are_unknown_after_a_reset(twinbus_clean_bus: Bus) -> None:
    bus = twinbus_clean_bus
    bus.create_queue("orders")
    with hurried_sdk():
        client = ServiceBusClient.from_connection_string(
            bus.connection_string, retry_total=0
        )
        with client, client.get_queue_sender("orders") as sender:
            sender.send_messages(ServiceBusMessage("old"))
            bus.reset()
            with pytest.raises(ServiceBusError):
                sender.send_messages(ServiceBusMessage("lost"))
            bus.create_queue("orders")
            assert round_trip(bus) == ["hello"]


def test_hurried_sdk_does_the_same_in_less_time(twinbus_clean_bus: Bus) -> None:
    bus = twinbus_clean_bus
    bus.create_queue("orders")
    usual = measured(lambda: round_trip(bus))
    with hurried_sdk():
        hurried = min(measured(lambda: round_trip(bus)) for _ in range(3))
    # Eighteen pauses of 50 ms are gone, and the ends of two threads.
    assert usual - hurried > 0.5
    assert sdk_sender.time is time


def measured(work: Callable[[], list[str]]) -> float:
    began = time.perf_counter()
    assert work() == ["hello"]
    return time.perf_counter() - began


async def test_asynchronous_clients_hurry_too(twinbus_clean_bus: Bus) -> None:
    bus = twinbus_clean_bus
    bus.create_queue("orders")
    with hurried_sdk():
        async with (
            AsyncClient.from_connection_string(bus.connection_string) as client,
            client.get_queue_sender("orders") as sender,
            client.get_queue_receiver("orders") as receiver,
        ):
            await sender.send_messages(ServiceBusMessage("hello"))
            (message,) = await receiver.receive_messages(1, max_wait_time=10)
            await receiver.complete_message(message)
    assert str(message) == "hello"
