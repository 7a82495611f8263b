"""The test kit: the fixture, the clock, restarts, both stores."""

import subprocess
import sys
from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from twinbus.errors import (
    ArgumentError,
    EntityAlreadyExists,
    MessagingEntityNotFound,
)
from twinbus.testing import Bus, rule


def _send(bus: Bus, text: str) -> None:
    client = ServiceBusClient.from_connection_string(bus.connection_string)
    with client, client.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage(text))


def _receive(bus: Bus) -> list[tuple[str, int]]:
    client = ServiceBusClient.from_connection_string(bus.connection_string)
    with client, client.get_queue_receiver("orders") as receiver:
        messages = receiver.receive_messages(10, max_wait_time=0.3)
        return [(str(message), message.delivery_count or 0) for message in messages]


def test_plugin_imports_no_bus_until_a_test_wants_one() -> None:
    code = (
        "import sys, twinbus.testing.plugin;"
        "assert 'twinbus.testing.bus' not in sys.modules;"
        "assert 'asyncio' not in sys.modules;"
        "from twinbus.testing import Bus, ManualClock, rule;"
        "import twinbus.testing as kit; assert not hasattr(kit, 'Rule')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_fixture_gives_a_running_bus(twinbus_bus):
    twinbus_bus.create_queue("orders")
    _send(twinbus_bus, "hello")
    assert _receive(twinbus_bus) == [("hello", 0)]


@pytest.mark.parametrize("stores", [1, 2])
@pytest.mark.parametrize("store", ["sqlite", "memory"])
def test_messages_survive_a_restart(store, stores):
    with Bus(store=store, stores=stores) as bus:
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


def _published(bus: Bus, count: int) -> list[tuple[str, object]]:
    """Publish two orders; what `billing` got of them, and its mark."""
    client = ServiceBusClient.from_connection_string(bus.connection_string)
    with client:
        with client.get_topic_sender("orders") as sender:
            for name, amount in (("coffee", 3), ("machine", 300)):
                sender.send_messages(
                    ServiceBusMessage(
                        name, subject=name, application_properties={"amount": amount}
                    )
                )
        with client.get_subscription_receiver("orders", "billing") as receiver:
            found = receiver.receive_messages(count, max_wait_time=5)
            return [
                (str(message), (message.application_properties or {}).get(b"mark"))
                for message in found
            ]


def test_rules_are_made_from_their_parts():
    with Bus() as bus:
        bus.create_topic("orders")
        bus.create_subscription("orders", "billing", rules=[])
        bus.add_rule(
            "orders",
            "billing",
            "large",
            sql_filter="amount > 100",
            action="SET mark = 1",
        )
        bus.add_rule(
            "orders", "billing", rule("coffee", correlation_filter={"label": "coffee"})
        )
        assert sorted(_published(bus, 2)) == [("coffee", None), ("machine", 1)]


def test_the_default_rule_can_be_removed():
    with Bus() as bus:
        bus.create_topic("orders")
        bus.create_subscription("orders", "billing")
        bus.remove_rule("orders", "billing", "$Default")
        bus.add_rule(
            "orders",
            "billing",
            "large",
            sql_filter="amount > @limit",
            parameters={"limit": 100},
        )
        assert [name for name, _ in _published(bus, 1)] == ["machine"]


def test_topics_and_subscriptions_are_updated_and_deleted():
    with Bus() as bus:
        bus.create_topic("orders")
        bus.create_subscription("orders", "billing")
        bus.update_topic("orders", default_message_time_to_live=timedelta(hours=1))
        bus.update_subscription("orders", "billing", lock_duration="30s")
        bus.delete_subscription("orders", "billing")
        with pytest.raises(MessagingEntityNotFound):
            bus.delete_subscription("orders", "billing")
        bus.delete_topic("orders")
        with pytest.raises(MessagingEntityNotFound):
            bus.delete_topic("orders")


def test_a_wrong_rule_is_refused_before_the_bus_is_asked():
    with pytest.raises(ValueError, match="not both"):
        rule("both", sql_filter="a = 1", correlation_filter={"label": "x"})
    with pytest.raises(ArgumentError, match="ends too early"):
        rule("broken", sql_filter="a >")
