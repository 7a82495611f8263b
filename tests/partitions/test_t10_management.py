"""T10: management reaches all fragments, and changes nothing while one is away."""

from collections.abc import Iterator
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from conformance.administration import SyncAdministration
from twinbus.testing import Bus

from .stores import owner_of_fragment, store_away


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    with Bus(stores=3, tls=True) as running:
        yield running


@pytest.fixture(scope="module")
def administration(bus: Bus) -> Iterator[Any]:
    client = SyncAdministration(bus)
    yield client
    client.close()


def send(client: ServiceBusClient, queue: str, count: int) -> None:
    with client.get_queue_sender(queue) as sender:
        for number in range(count):
            sender.send_messages(
                ServiceBusMessage(str(number), partition_key=str(number))
            )


def test_t10_counts_are_those_of_all_fragments(
    bus: Bus, client: ServiceBusClient, administration: Any
) -> None:
    administration.create_queue("counted", enable_partitioning=True)
    send(client, "counted", 40)
    found = administration.get_queue_runtime_properties("counted")
    assert found.active_message_count == 40
    assert found.total_message_count == 40
    assert found.size_in_bytes > 40
    used = [one for one in bus.server.namespace.queue("counted").fragments()]
    assert sum(one.active_count > 0 for one in used) > 5


def test_t10_nothing_is_changed_while_a_store_is_away(
    bus: Bus, client: ServiceBusClient, administration: Any
) -> None:
    administration.create_queue("limited", enable_partitioning=True)
    send(client, "limited", 10)
    with store_away(bus, owner_of_fragment(bus, "limited", 1)):
        found = administration.get_queue("limited")
        assert found.availability_status == "Limited"
        runtime = administration.get_queue_runtime_properties("limited")
        assert runtime.active_message_count == 10
        found.max_delivery_count = 3
        with pytest.raises(HttpResponseError, match="Fragment 1 of 'limited'"):
            administration.update_queue(found)
        with pytest.raises(HttpResponseError, match="Fragment 1 of 'limited'"):
            administration.delete_queue("limited")
        assert administration.get_queue("limited").max_delivery_count == 10
        # A new entity is made of the stores that are there.
        administration.create_queue("meanwhile", enable_partitioning=True)
        shown = administration.get_queue("meanwhile")
        assert shown.availability_status == "Available"
    assert administration.get_queue("limited").availability_status == "Available"
    administration.update_queue(found)
    assert administration.get_queue("limited").max_delivery_count == 3
    administration.delete_queue("limited")


def test_t10_rules_and_subscriptions_need_all_stores(
    bus: Bus, administration: Any
) -> None:
    administration.create_topic("events", enable_partitioning=True)
    administration.create_subscription("events", "all")
    with store_away(bus, owner_of_fragment(bus, "events", 2)):
        with pytest.raises(HttpResponseError, match="Fragment"):
            administration.create_subscription("events", "more")
        with pytest.raises(HttpResponseError, match="Fragment"):
            administration.delete_rule("events", "all", "$Default")
    names = [one.name for one in administration.list_subscriptions("events")]
    assert names == ["all"]
    [rule] = administration.list_rules("events", "all")
    assert rule.name == "$Default"
