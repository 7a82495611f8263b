"""A2: a partitioned entity is throttled later than a conventional one.

The rest of A2 is in `conformance/test_a2_throttling.py`.
"""

import time
from collections.abc import Callable, Iterator

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusServerBusyError

from twinbus.fragments.hashing import fragment_index
from twinbus.testing import Bus

from .conftest import FRAGMENTS, KINDS, bus_on

_PATIENCE_SECONDS = 60
# The other store must stay below the threshold where other tests run as well.
_SLOW, _THRESHOLD_MS = "2s", 1_000


@pytest.fixture(params=KINDS)
def bus(request: pytest.FixtureRequest) -> Iterator[Bus]:
    settings = {"allow_faults": True, "throttle_commit_ms": _THRESHOLD_MS}
    with bus_on(request, request.param, 2, **settings) as running:
        running.create_queue("conventional")
        running.create_queue("partitioned", enable_partitioning=True)
        yield running


@pytest.fixture
def client(bus: Bus) -> Iterator[ServiceBusClient]:
    with ServiceBusClient.from_connection_string(
        bus.connection_string, retry_total=0
    ) as connected:
        yield connected


def is_taken(client: ServiceBusClient, queue: str, key: str | None = None) -> bool:
    with client.get_queue_sender(queue) as sender:
        try:
            sender.send_messages(ServiceBusMessage("x", partition_key=key))
        except ServiceBusServerBusyError as busy:
            assert "throttle_commit_ms" in str(busy)
            return False
    return True


def until(condition: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < ends_at, "it does not happen"
        time.sleep(0.1)


def test_a02_partitioned_queue_goes_on_without_its_slow_store(
    bus: Bus, client: ServiceBusClient
) -> None:
    namespace = bus.server.namespace
    slow = namespace.queue("conventional").fragment().home
    keys = {
        namespace.queue("partitioned").fragment(index=index).home is slow: key
        for key in map(str, range(100))
        for index in [fragment_index(key, FRAGMENTS)]
    }
    [location] = [one.store.location for one in bus.server.owners if one is slow]
    bus.faults.set("slow", delay=_SLOW, store=location)
    until(lambda: not is_taken(client, "conventional"))
    assert all(is_taken(client, "partitioned") for _ in range(FRAGMENTS))
    assert is_taken(client, "partitioned", keys[False])
    # It was not asked for a moment, so it may have to be slow once more.
    until(lambda: not is_taken(client, "partitioned", keys[True]))
    bus.faults.clear()
    until(lambda: is_taken(client, "conventional"))
    until(lambda: is_taken(client, "partitioned", keys[True]))
