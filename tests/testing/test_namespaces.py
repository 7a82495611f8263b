"""A namespace for each test, on a bus that tests share."""

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from twinbus.testing import Bus, hurried_sdk
from twinbus.testing.bus_namespace import BusNamespace


def sent_and_peeked(namespace: BusNamespace, text: str) -> list[str]:
    with (
        hurried_sdk(),
        ServiceBusClient.from_connection_string(namespace.connection_string) as client,
        client.get_queue_sender("orders") as sender,
        client.get_queue_receiver("orders") as receiver,
    ):
        sender.send_messages(ServiceBusMessage(text))
        return [str(message) for message in receiver.peek_messages(10)]


@pytest.mark.parametrize("text", ["first", "second"])
def test_each_test_has_its_own(twinbus_namespace: BusNamespace, text: str) -> None:
    twinbus_namespace.create_queue("orders")
    assert sent_and_peeked(twinbus_namespace, text) == [text]


def test_two_at_a_time_and_each_is_reset_alone(twinbus_clean_bus: Bus) -> None:
    one = twinbus_clean_bus.namespace("one")
    two = twinbus_clean_bus.namespace("two")
    for namespace in (one, two):
        namespace.create_queue("orders", lock_duration="30s")
        namespace.create_topic("news")
        namespace.create_subscription("news", "all", rules=[])
        assert sent_and_peeked(namespace, namespace.name) == [namespace.name]
    one.reset()
    assert one._served().entities() == []
    assert len(two._served().entities()) == 3
    assert sent_and_peeked(two, "more") == ["two", "more"]


def test_same_name_is_the_same_namespace(twinbus_clean_bus: Bus) -> None:
    first, again = (twinbus_clean_bus.namespace("one") for _ in range(2))
    assert (first.key, first.port) == (again.key, again.port)


def test_reset_of_the_bus_removes_them(twinbus_clean_bus: Bus) -> None:
    gone = twinbus_clean_bus.namespace("gone")
    twinbus_clean_bus.reset()
    assert [one.name for one in twinbus_clean_bus.server.namespaces] == ["twinbus"]
    # Once more does nothing.
    gone.remove()


def test_time_is_that_of_the_bus() -> None:
    with Bus(store="memory") as bus, bus.namespace("one") as one:
        one.create_queue("orders", auto_delete_on_idle="5m")
        bus.advance(600)
        assert one._served().entities() == []


def test_restart_keeps_key_and_port() -> None:
    with Bus() as bus:
        one = bus.namespace("one")
        one.create_queue("orders")
        bus.restart()
        assert sent_and_peeked(one, "kept") == ["kept"]
