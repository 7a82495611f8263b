"""T14: how many partitioned entities there may be, and that the numbers are settings.

A creation that does not fit is refused whole, by the SDK and on the command line.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError
from cli.command import complaint, run

from twinbus.cli import exit_codes
from twinbus.errors import QuotaExceeded
from twinbus.limits import FRAGMENTS_PER_ENTITY_MAX, FRAGMENTS_PER_STORE
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
