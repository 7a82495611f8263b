"""T7, T14: partitioning is chosen at creation; sizes and numbers of such entities."""

import http.client
from collections.abc import Iterator
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError
from azure.servicebus.management import QueueProperties

from conformance.administration import SyncAdministration
from twinbus.auth import sas
from twinbus.errors import QuotaExceeded
from twinbus.testing import Bus

from .conftest import FRAGMENTS


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    settings = {"max_partitioned_entities": 8}
    with Bus(stores=2, tls=True, settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def administration(bus: Bus) -> Iterator[Any]:
    client = SyncAdministration(bus)
    yield client
    client.close()


@pytest.mark.parametrize("megabytes", [1024, 5120])
def test_t07_description_shows_the_size_of_all_fragments(
    administration: Any, megabytes: int
) -> None:
    name = f"sized-{megabytes}"
    made = administration.create_queue(
        name, enable_partitioning=True, max_size_in_megabytes=megabytes
    )
    assert made.max_size_in_megabytes == FRAGMENTS * megabytes
    found = administration.get_queue(name)
    assert found.enable_partitioning
    assert found.max_size_in_megabytes == FRAGMENTS * megabytes


def test_t07_update_that_sends_the_total_back_changes_nothing(
    bus: Bus, administration: Any
) -> None:
    administration.create_queue("same", enable_partitioning=True)
    for delivery_count in (3, 4):
        found: QueueProperties = administration.get_queue("same")
        found.max_delivery_count = delivery_count
        administration.update_queue(found)
        shown = administration.get_queue("same")
        assert shown.max_size_in_megabytes == FRAGMENTS * 1024
        assert shown.max_delivery_count == delivery_count
    assert bus.server.namespace.queue("same").description.max_size_in_megabytes == 1024
    found.max_size_in_megabytes = 2048
    administration.update_queue(found)
    assert administration.get_queue("same").max_size_in_megabytes == FRAGMENTS * 2048


def test_t07_partitioning_cannot_be_changed(administration: Any) -> None:
    administration.create_queue("plain")
    administration.create_queue("spread", enable_partitioning=True)
    for name, wanted in (("plain", True), ("spread", False)):
        found = administration.get_queue(name)
        found.enable_partitioning = wanted
        with pytest.raises(HttpResponseError, match="partitioning"):
            administration.update_queue(found)
        assert administration.get_queue(name).enable_partitioning is not wanted


def test_t07_fragment_is_not_larger_than_five_gigabytes(administration: Any) -> None:
    with pytest.raises(HttpResponseError, match="max_size_in_megabytes"):
        administration.create_queue(
            "large", enable_partitioning=True, max_size_in_megabytes=10240
        )


@pytest.mark.parametrize(
    ("version", "status"), [("2013-08", 400), ("2013-10", 201), ("2021-05", 201)]
)
def test_t07_older_clients_cannot_partition(
    bus: Bus, version: str, status: int
) -> None:
    name = f"by-{version}"
    body = (
        '<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml">'
        '<QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/'
        'servicebus/connect"><EnablePartitioning>true</EnablePartitioning>'
        "</QueueDescription></content></entry>"
    )
    token = sas.make(
        resource=f"http://localhost/{name}",
        key_name=bus.key_name,
        key=bus.key,
        expires_at=bus.clock.now() + 600_000,
    )
    connection = http.client.HTTPConnection("localhost", bus.port)
    headers = {"Authorization": token, "Content-Type": "application/atom+xml"}
    connection.request("PUT", f"/{name}?api-version={version}", body, headers)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    assert response.status == status, text
    assert status == 201 or "2013-10 or later" in text


def test_t14_partitioned_entities_are_counted(bus: Bus, administration: Any) -> None:
    entities = bus.server.namespace.entities()
    there = sum(entity.is_partitioned for entity in entities)
    for number in range(8 - there):
        administration.create_topic(f"more-{number}", enable_partitioning=True)
    with pytest.raises(HttpResponseError, match="max_partitioned_entities"):
        administration.create_queue("one-more", enable_partitioning=True)
    with pytest.raises(QuotaExceeded, match="partitioned entities"):
        bus.create_topic("one-more", enable_partitioning=True)
    administration.create_queue("not-partitioned")


def test_t14_all_new_entities_can_be_partitioned() -> None:
    with Bus(settings={"partition_all": True, "fragments": 3}) as bus:
        bus.create_queue("orders")
        bus.create_topic("events")
        bus.create_subscription("events", "all")
        counts = [entity.fragment_count for entity in bus.server.namespace.entities()]
        assert counts == [3, 3, 3]
