"""Tests of an application's messaging, each with its own bus.

The fixture `twinbus_bus` comes with the package. Its clock moves only when a test
moves it, so a test can wait for an hour without delay.
"""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from twinbus.testing import Bus


@pytest.fixture
def client(twinbus_bus: Bus) -> Iterator[ServiceBusClient]:
    twinbus_bus.create_queue(
        "orders", lock_duration=timedelta(seconds=30), max_delivery_count=2
    )
    connection_string = twinbus_bus.connection_string
    with ServiceBusClient.from_connection_string(connection_string) as client:
        yield client


def test_slow_worker_loses_its_message(
    twinbus_bus: Bus, client: ServiceBusClient
) -> None:
    with (
        client.get_queue_sender("orders") as sender,
        client.get_queue_receiver("orders") as receiver,
    ):
        sender.send_messages(ServiceBusMessage("coffee"))
        receiver.receive_messages(1, max_wait_time=5)
        twinbus_bus.advance(31)
        [again] = receiver.receive_messages(1, max_wait_time=5)
        assert again.delivery_count == 1


def test_orders_survive_a_restart(twinbus_bus: Bus, client: ServiceBusClient) -> None:
    with client.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage("tea"))
    twinbus_bus.restart()
    with client.get_queue_receiver("orders") as receiver:
        [order] = receiver.receive_messages(1, max_wait_time=5)
        assert str(order) == "tea"
