"""Tests of the rules of an application's subscriptions."""

from collections.abc import Iterator

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from twinbus.testing import Bus, rule


@pytest.fixture
def client(twinbus_bus: Bus) -> Iterator[ServiceBusClient]:
    twinbus_bus.create_topic("events")
    twinbus_bus.create_subscription("events", "audit")
    twinbus_bus.create_subscription(
        "events", "billing", rules=[rule("large", sql_filter="amount > 100")]
    )
    connection_string = twinbus_bus.connection_string
    with ServiceBusClient.from_connection_string(connection_string) as client:
        with client.get_topic_sender("events") as sender:
            for name, amount in (("coffee", 3), ("machine", 300)):
                properties = {"amount": amount}
                message = ServiceBusMessage(name, application_properties=properties)
                sender.send_messages(message)
        yield client


def received(client: ServiceBusClient, subscription: str, count: int) -> list[str]:
    with client.get_subscription_receiver("events", subscription) as receiver:
        messages = receiver.receive_messages(count, max_wait_time=5)
        return [str(message) for message in messages]


def test_audit_sees_everything(client: ServiceBusClient) -> None:
    assert received(client, "audit", 2) == ["coffee", "machine"]


def test_billing_sees_what_is_expensive(client: ServiceBusClient) -> None:
    assert received(client, "billing", 1) == ["machine"]
