"""The test kit as its users use it: the fixture, the clock, restarts, both stores."""

from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from twinbus.errors import EntityAlreadyExists, MessagingEntityNotFound
from twinbus.testing import Bus


def _send(bus: Bus, text: str) -> None:
    client = ServiceBusClient.from_connection_string(bus.connection_string)
    with client, client.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage(text))


def _receive(bus: Bus) -> list[tuple[str, int]]:
    client = ServiceBusClient.from_connection_string(bus.connection_string)
    with client, client.get_queue_receiver("orders") as receiver:
        messages = receiver.receive_messages(10, max_wait_time=0.3)
        return [(str(message), message.delivery_count or 0) for message in messages]


def test_fixture_gives_a_running_bus(twinbus_bus):
    twinbus_bus.create_queue("orders")
    _send(twinbus_bus, "hello")
    assert _receive(twinbus_bus) == [("hello", 0)]


@pytest.mark.parametrize("store", ["sqlite", "memory"])
def test_messages_survive_a_restart(store):
    with Bus(store=store) as bus:
        bus.create_queue("orders")
        _send(bus, "hello")
        port = bus.port
        bus.restart()
        assert bus.port == port
        assert _receive(bus) == [("hello", 0)]


def test_locks_end_when_the_clock_is_moved():
    with Bus() as bus:
        bus.create_queue("orders", lock_duration=timedelta(seconds=30))
        _send(bus, "hello")
        assert _receive(bus) == [("hello", 0)]
        assert _receive(bus) == []
        began = bus.now()
        bus.advance(31)
        assert bus.now() - began == timedelta(seconds=31)
        assert _receive(bus) == [("hello", 1)]


def test_queues_are_updated_and_deleted():
    with Bus() as bus:
        bus.create_queue("orders")
        with pytest.raises(EntityAlreadyExists):
            bus.create_queue("Orders")
        bus.update_queue("orders", max_delivery_count=1)
        bus.delete_queue("orders")
        with pytest.raises(MessagingEntityNotFound):
            bus.delete_queue("orders")


def test_unknown_store_is_named():
    with pytest.raises(ValueError, match="'paper'"):
        Bus(store="paper")
