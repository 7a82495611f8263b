"""A bus with several stores, and partitioned entities on it."""

import itertools
import secrets
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusReceivedMessage

from conformance.administration import SyncAdministration
from twinbus.testing import Bus

KINDS = ("sqlite", "postgresql")
STORES = 4
FRAGMENTS = 16

_numbers = itertools.count(1)


@pytest.fixture(scope="module", params=KINDS)
def bus(request: pytest.FixtureRequest) -> Iterator[Bus]:
    """The bus that the cases of a module share, on each kind of store."""
    with bus_on(request, request.param, STORES) as running:
        yield running


def bus_on(
    request: pytest.FixtureRequest,
    kind: str,
    count: int,
    *,
    tls: bool = False,
    **settings: Any,
) -> Bus:
    """A bus with so many stores of a kind."""
    if kind == "sqlite":
        return Bus(stores=count, tls=tls, settings=settings)
    urls = postgres_urls(request, count)
    return Bus(tls=tls, settings={**settings, "store": urls})


def postgres_urls(request: pytest.FixtureRequest, count: int) -> tuple[str, ...]:
    """Of so many new stores."""
    server = request.getfixturevalue("postgres_server")
    name = f"t_{secrets.token_hex(8)}"
    return tuple(server.url(f"{name}_{number}") for number in range(count))


@pytest.fixture(scope="module")
def client(bus: Bus) -> Iterator[ServiceBusClient]:
    with ServiceBusClient.from_connection_string(bus.connection_string) as connected:
        yield connected


@pytest.fixture(scope="module")
def administration(bus: Bus) -> Iterator[Any]:
    """The SDK's administration client; the bus needs TLS."""
    client = SyncAdministration(bus)
    yield client
    client.close()


@pytest.fixture
def make_queue(bus: Bus) -> Callable[..., str]:
    """Creates a partitioned queue with the given settings; gives its name."""

    def make(**settings: Any) -> str:
        name = f"queue-{next(_numbers)}"
        wanted = {"enable_partitioning": True, "lock_duration": timedelta(minutes=5)}
        bus.create_queue(name, **{**wanted, **settings})
        return name

    return make


@pytest.fixture
def queue(make_queue: Callable[..., str]) -> str:
    return make_queue()


def fragment_of(message: ServiceBusReceivedMessage) -> int:
    """The fragment that a message was in, by its sequence number."""
    assert message.sequence_number is not None
    return message.sequence_number >> 48


def drained(
    client: ServiceBusClient, queue: str, **options: Any
) -> list[ServiceBusReceivedMessage]:
    """All messages of a queue, completed."""
    found = []
    with client.get_queue_receiver(queue, max_wait_time=2, **options) as receiver:
        while messages := receiver.receive_messages(100, max_wait_time=2):
            for message in messages:
                receiver.complete_message(message)
            found += messages
    return found
