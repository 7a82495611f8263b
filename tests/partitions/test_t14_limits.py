"""T14: how many partitioned entities there may be, and that the numbers are settings.

A creation that does not fit is refused whole, by the SDK and on the command line.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from cli.command import complaint, run

from twinbus.broker.descriptions.queue import QueueDescription
from twinbus.cli import exit_codes
from twinbus.entities.partitioning import shown_description
from twinbus.errors import QuotaExceeded
from twinbus.limits import FRAGMENTS_PER_ENTITY_MAX, FRAGMENTS_PER_STORE
from twinbus.store.catalog import HASH_VERSION
from twinbus.testing import Bus

from .conftest import KINDS, bus_on

DOCUMENTED = 100
# A fragment has room for its dead letters and those of its transfers.
FITTING = FRAGMENTS_PER_STORE // 3 // FRAGMENTS_PER_ENTITY_MAX


@pytest.fixture(scope="module", params=KINDS)
def bus(request: pytest.FixtureRequest) -> Iterator[Bus]:
    with bus_on(request, request.param, 2, tls=True) as running:
        for number in range(DOCUMENTED):
            make = running.create_queue if number % 2 else running.create_topic
            make(f"there-{number}", enable_partitioning=True)
        yield running


def paths(bus: Bus) -> set[str]:
    return {entity.path for entity in bus.server.namespace.entities()}


def check_nothing_is_left(bus: Bus, path: str) -> None:
    """Not in the catalog, not in a store, and not after a restart."""
    fragments = [owner.table.fragment_count() for owner in bus.server.owners]
    assert path not in paths(bus)
    bus.restart()
    assert path not in paths(bus)
    assert [one.table.fragment_count() for one in bus.server.owners] == fragments


def test_t14_the_101st_partitioned_entity_is_refused(
    bus: Bus, administration: Any
) -> None:
    for create in (administration.create_queue, administration.create_topic):
        with pytest.raises(HttpResponseError, match="max_partitioned_entities") as no:
            create("one-more", enable_partitioning=True)
        assert no.value.status_code == 403
        assert "100" in str(no.value)
    check_nothing_is_left(bus, "one-more")


def test_t14_the_101st_is_refused_on_the_command_line(bus: Bus, tmp_path: Path) -> None:
    command = ("entities", "create", "queue", "one-more", "--enable-partitioning")
    where = ("--connection-string", bus.connection_string)
    line = complaint(run(*command, *where, cwd=tmp_path), exit_codes.FAILED)
    assert "max_partitioned_entities" in line and "100" in line
    check_nothing_is_left(bus, "one-more")


def test_t14_conventional_entities_and_subscriptions_are_not_counted(
    bus: Bus, administration: Any
) -> None:
    administration.create_queue("not-partitioned")
    administration.create_subscription("there-0", "all")
    administration.delete_queue("there-1")
    administration.create_queue("in-its-place", enable_partitioning=True)


@pytest.mark.parametrize("kind", KINDS)
def test_t14_partitioned_entities_count_among_all(
    request: pytest.FixtureRequest, kind: str
) -> None:
    with bus_on(request, kind, 2, tls=True, max_entities=3) as small:
        small.create_queue("conventional")
        small.create_queue("partitioned", enable_partitioning=True)
        small.create_topic("topic", enable_partitioning=True)
        for is_partitioned in (True, False):
            with pytest.raises(QuotaExceeded, match="max_entities"):
                small.create_queue("fourth", enable_partitioning=is_partitioned)
        assert len(paths(small)) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_t14_numbers_are_settings(request: pytest.FixtureRequest, kind: str) -> None:
    settings = {"max_partitioned_entities": 1, "fragments": 3, "partition_all": True}
    with bus_on(request, kind, 2, **settings) as bus:
        bus.create_topic("events")
        bus.create_subscription("events", "all")
        counts = [entity.fragment_count for entity in bus.server.namespace.entities()]
        assert counts == [3, 3]
        with pytest.raises(QuotaExceeded, match="max_partitioned_entities"):
            bus.create_queue("orders")


@pytest.mark.parametrize("kind", KINDS)
def test_t14_entities_from_before_fragments_keep_one_and_all_of_them_open(
    request: pytest.FixtureRequest, kind: str
) -> None:
    """When the property was only kept and shown, any number of entities could have it.
    What is in their records is what one fragment leaves there."""
    before = {"fragments": 1, "max_partitioned_entities": 1_000}
    old = [f"old-{number}" for number in range(DOCUMENTED + 1)]
    with bus_on(request, kind, 2, **before) as bus:
        for path in old:
            bus.create_queue(path, enable_partitioning=True, max_size_in_megabytes=2048)
        used = old[0], old[-1]
        assert [send_two(bus, path) for path in used] == [[1, 2]] * 2
        for name in before:
            del bus._settings[name]
        bus.restart()
        entities = bus.server.namespace.entities()
        assert {entity.path for entity in entities} == set(old)
        for entity in entities:
            assert HASH_VERSION not in entity.record.description
            shown = shown_description(entity)
            assert isinstance(shown, QueueDescription)
            assert shown.enable_partitioning
            assert shown.max_size_in_megabytes == 2048
            assert entity.fragment_count == 1
        assert [send_two(bus, path) for path in used] == [[1, 2, 3, 4]] * 2
        with pytest.raises(QuotaExceeded, match="max_partitioned_entities"):
            bus.create_queue("one-more", enable_partitioning=True)
        assert len(paths(bus)) == len(old)
        bus.create_queue("conventional")


def send_two(bus: Bus, path: str) -> list[int | None]:
    """The sequence numbers of all messages that are there then."""
    with (
        ServiceBusClient.from_connection_string(bus.connection_string) as client,
        client.get_queue_sender(path) as sender,
        client.get_queue_receiver(path) as receiver,
    ):
        for _ in range(2):
            sender.send_messages(ServiceBusMessage("text", partition_key="key"))
        return [one.sequence_number for one in receiver.peek_messages(10)]


@pytest.mark.parametrize("kind", KINDS)
def test_t14_creation_without_room_in_a_store_is_refused_whole(
    request: pytest.FixtureRequest, kind: str
) -> None:
    """Row ids of a store have room for so many fragments."""
    settings = {"fragments": FRAGMENTS_PER_ENTITY_MAX}
    with bus_on(request, kind, 1, tls=True, **settings) as bus:
        for number in range(FITTING):
            bus.create_queue(f"there-{number}", enable_partitioning=True)
        with pytest.raises(QuotaExceeded, match=f"can hold {FRAGMENTS_PER_STORE}"):
            bus.create_queue("one-more", enable_partitioning=True)
        check_nothing_is_left(bus, "one-more")
        bus.create_queue("small")
