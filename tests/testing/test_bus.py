"""The test kit: the fixture, the clock, restarts, both stores."""

import socket
import subprocess
import sys
import threading
from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from twinbus.errors import (
    ArgumentError,
    EntityAlreadyExists,
    MessagingEntityNotFound,
)
from twinbus.testing import Bus, rule

STATES = ("active", "deferred", "scheduled", "dead_letter")


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


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("alow_faults", "no setting 'alow_faults'; did you mean 'allow_faults'"),
        ("zzzz", "no setting 'zzzz'$"),
        ("port", "'port' is made by the bus"),
    ],
)
def test_settings_that_are_none_are_named(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Bus(settings={name: 1})


def test_bus_that_does_not_run_says_so() -> None:
    bus = Bus(store="memory")
    for use in (
        lambda: bus.create_queue("orders"),
        lambda: bus.counts("orders"),
        lambda: bus.namespace("one"),
        bus.reset,
    ):
        with pytest.raises(RuntimeError, match="not running"):
            use()
    with bus:
        with pytest.raises(RuntimeError, match="is running"):
            bus.start()
        bus.create_queue("orders")
        bus.stop()
        assert f"localhost:{bus.port};" in bus.connection_string
        with pytest.raises(RuntimeError, match="not running"):
            bus.advance(1)
        bus.start()
        bus.delete_queue("orders")


def test_bus_that_cannot_start_leaves_no_thread() -> None:
    bus = Bus(store="memory")
    before = threading.active_count()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bus.port = taken.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            bus.start()
    assert threading.active_count() == before
    with bus:
        bus.create_queue("orders")


def test_counts_tell_what_became_of_messages(twinbus_clean_bus: Bus) -> None:
    bus, nothing = twinbus_clean_bus, dict.fromkeys(STATES, 0)
    bus.create_queue("orders", max_delivery_count=1)
    assert bus.counts("orders") == nothing
    client = ServiceBusClient.from_connection_string(bus.connection_string)
    with client, client.get_queue_sender("orders") as sender:
        sender.send_messages([ServiceBusMessage(str(number)) for number in range(3)])
        later = bus.now() + timedelta(hours=1)
        sender.schedule_messages(ServiceBusMessage("later"), later)
        with client.get_queue_receiver("orders") as receiver:
            first, second = receiver.receive_messages(2, max_wait_time=5)
            receiver.defer_message(first)
            receiver.abandon_message(second)
    assert bus.counts("orders") == dict.fromkeys(STATES, 1)
    bus.advance(3601)
    assert bus.counts("orders") == dict.fromkeys(STATES, 1) | {
        "active": 2,
        "scheduled": 0,
    }
    with bus.namespace("other") as other, pytest.raises(MessagingEntityNotFound):
        other.counts("orders")
    bus.create_topic("events")
    bus.create_subscription("events", "audit")
    assert bus.counts("events/Subscriptions/audit") == nothing


def test_time_does_not_go_back_and_claims_are_listed(twinbus_clean_bus: Bus) -> None:
    with pytest.raises(ValueError, match="forwards only"):
        twinbus_clean_bus.advance(-1)
    with pytest.raises(ValueError, match="there are: Send; Listen; Send, Listen; M"):
        twinbus_clean_bus.connection_string_for("Sent")


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
