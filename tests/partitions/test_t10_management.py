"""T10: management reaches all fragments, and changes nothing while one is away."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from cli.command import complaint, run

from twinbus.cli import exit_codes
from twinbus.testing import Bus

from .conftest import KINDS, bus_on
from .stores import owner_of_fragment, store_away


@pytest.fixture(scope="module", params=KINDS)
def bus(request: pytest.FixtureRequest) -> Iterator[Bus]:
    with bus_on(request, request.param, 3, tls=True, allow_faults=True) as running:
        yield running


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


def test_t10_partitioned_entity_is_made_in_all_stores_or_not_at_all(
    bus: Bus, administration: Any, tmp_path: Path
) -> None:
    administration.create_queue("victim", enable_partitioning=True)
    before = [owner.table.fragment_count() for owner in bus.server.owners]
    with store_away(bus, owner_of_fragment(bus, "victim", 1)):
        for create in (administration.create_queue, administration.create_topic):
            with pytest.raises(HttpResponseError, match="'meanwhile'") as busy:
                create("meanwhile", enable_partitioning=True)
            assert busy.value.status_code == 503
        command = ("entities", "create", "queue", "meanwhile", "--enable-partitioning")
        where = ("--connection-string", bus.connection_string)
        line = complaint(run(*command, *where, cwd=tmp_path), exit_codes.FAILED)
        assert "'meanwhile'" in line
        # A conventional one needs one store.
        administration.create_queue("conventional")
        administration.delete_queue("conventional")
    assert "meanwhile" not in {one.name for one in administration.list_queues()}
    assert [one.table.fragment_count() for one in bus.server.owners] == before
    administration.create_queue("meanwhile", enable_partitioning=True)
    stores = bus.server.namespace.queue("meanwhile").record.placement
    assert len(set(stores)) == 3
