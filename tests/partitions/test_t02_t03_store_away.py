"""T2, T3, T6: what a partitioned queue does while one of its stores is away."""

import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusServerBusyError

from twinbus.fragments.hashing import fragment_index
from twinbus.testing import Bus

from .conftest import FRAGMENTS, STORES, bus_on, drained, fragment_of

_PATIENCE_SECONDS = 60
_KEYS = [f"key-{number}" for number in range(200)]


class Away:
    """A bus with a partitioned queue, one of whose stores is away."""

    def __init__(self, bus: Bus, name: str) -> None:
        self.bus = bus
        self.queue = name
        placement = bus.server.namespace.queue(name).record.placement
        owner = bus.server.owners.find(placement[0])
        assert owner is not None
        self.owner = owner
        # The fragments of the store that leaves.
        self.lost = {
            index for index, uuid in enumerate(placement) if uuid == placement[0]
        }
        self.key = next(k for k in _KEYS if fragment_index(k, FRAGMENTS) in self.lost)
        self.other_key = next(
            k for k in _KEYS if fragment_index(k, FRAGMENTS) not in self.lost
        )

    def leave(self) -> None:
        self.bus.faults.set("gone", store=self.owner.store.location)

    def come_back(self) -> None:
        self.bus.faults.clear()
        self.until(self._is_back)

    def _is_back(self) -> bool:
        # The bus opens the store again now and then, by its own clock.
        self.bus.advance(timedelta(seconds=1))
        return self.owner.is_serving

    def until(self, condition: Callable[[], bool]) -> None:
        ends_at = time.monotonic() + _PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < ends_at, "it does not happen"
            time.sleep(0.01)


@pytest.fixture(params=["sqlite", "postgresql"])
def away(request: pytest.FixtureRequest) -> Iterator[Away]:
    with bus_on(request, request.param, STORES, allow_faults=True) as bus:
        bus.create_queue("orders", enable_partitioning=True)
        yield Away(bus, "orders")


@pytest.fixture
def impatient(away: Away) -> Iterator[ServiceBusClient]:
    """A client that raises what it is told."""
    with ServiceBusClient.from_connection_string(
        away.bus.connection_string, retry_total=0
    ) as client:
        yield client


def test_t02_sends_without_a_key_succeed_while_a_store_is_away(
    away: Away, impatient: ServiceBusClient
) -> None:
    with impatient.get_queue_sender(away.queue) as sender:
        for number in range(8):
            sender.send_messages(ServiceBusMessage(str(number)))
        away.leave()
        for number in range(8, 40):
            sender.send_messages(ServiceBusMessage(str(number)))
    found = drained(impatient, away.queue)
    assert {str(one) for one in found} >= {str(number) for number in range(8, 40)}
    assert not {fragment_of(one) for one in found if int(str(one)) >= 8} & away.lost
    away.come_back()
    rest = drained(impatient, away.queue)
    bodies = sorted(int(str(one)) for one in [*found, *rest])
    assert bodies == list(range(40)), "nothing is lost, and nothing is there twice"


def test_t03_send_with_a_key_fails_with_its_fragment_alone(
    away: Away, impatient: ServiceBusClient
) -> None:
    with impatient.get_queue_sender(away.queue) as sender:
        away.leave()
        with pytest.raises(ServiceBusServerBusyError):
            sender.send_messages(ServiceBusMessage("no", partition_key=away.key))
        with pytest.raises(
            ServiceBusServerBusyError, match=r"Fragment \d+ of 'orders'"
        ):
            sender.send_messages(ServiceBusMessage("no", partition_key=away.key))
        sender.send_messages(ServiceBusMessage("yes", partition_key=away.other_key))
        away.come_back()
        sender.send_messages(ServiceBusMessage("again", partition_key=away.key))
    assert sorted(str(one) for one in drained(impatient, away.queue)) == [
        "again",
        "yes",
    ]
