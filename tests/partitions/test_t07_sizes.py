"""T7: partitioning is chosen at creation, and the size counts for each fragment."""

import http.client
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError
from azure.servicebus.management import QueueProperties
from cli.command import run

from twinbus.auth import sas
from twinbus.cli import exit_codes
from twinbus.testing import Bus

from .conftest import FRAGMENTS, KINDS, bus_on


@pytest.fixture(scope="module", params=KINDS)
def bus(request: pytest.FixtureRequest) -> Iterator[Bus]:
    with bus_on(request, request.param, 2, tls=True) as running:
        yield running


@pytest.mark.parametrize("megabytes", [1024, 2048, 3072, 4096, 5120])
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


def test_t07_size_is_one_gigabyte_for_each_fragment_unless_given(
    administration: Any,
) -> None:
    made = administration.create_topic("unsized", enable_partitioning=True)
    assert made.max_size_in_megabytes == FRAGMENTS * 1024


def test_t07_update_that_sends_the_total_back_changes_nothing(
    administration: Any,
) -> None:
    administration.create_queue("same", enable_partitioning=True)
    for delivery_count in (3, 4):
        found: QueueProperties = administration.get_queue("same")
        found.max_delivery_count = delivery_count
        administration.update_queue(found)
        shown = administration.get_queue("same")
        assert shown.max_size_in_megabytes == FRAGMENTS * 1024
        assert shown.max_delivery_count == delivery_count
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


def test_t07_partitioning_of_a_topic_cannot_be_changed(administration: Any) -> None:
    administration.create_topic("events", enable_partitioning=True)
    found = administration.get_topic("events")
    found.enable_partitioning = False
    with pytest.raises(HttpResponseError, match="partitioning"):
        administration.update_topic(found)
    assert administration.get_topic("events").enable_partitioning


def test_t07_command_line_neither_changes_partitioning_nor_multiplies_the_size(
    bus: Bus, administration: Any, tmp_path: Path
) -> None:
    administration.create_queue("commanded", enable_partitioning=True)
    command = ("entities", "update", "commanded")
    where = ("--connection-string", bus.connection_string)
    for flag in ("--enable-partitioning", "--no-enable-partitioning"):
        ended = run(*command, flag, *where, cwd=tmp_path)
        assert ended.returncode == exit_codes.USAGE
    size = ("--max-size-in-megabytes", str(FRAGMENTS * 1024))
    ended = run(*command, *size, *where, cwd=tmp_path)
    assert ended.returncode == exit_codes.OK, ended.stderr
    shown = administration.get_queue("commanded")
    assert (shown.enable_partitioning, shown.max_size_in_megabytes) == (
        True,
        FRAGMENTS * 1024,
    )


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
    is_there = name in {one.path for one in bus.server.namespace.entities()}
    assert is_there is (status == 201)
