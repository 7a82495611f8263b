"""A2: a bus that is throttled says so to the unmodified SDK, and recovers.

Which entity is refused for which reason, and that all other measures have the same
effect, is in `tests/unit/throttling`.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusServerBusyError

from twinbus.testing import Bus

from .administration import SyncAdministration
from .sdk import SyncSdk, eventually, receive

pytestmark = [
    pytest.mark.setups("one", "postgres"),
    pytest.mark.differs(
        "brokers", row="A2", why="each broker has a rate of its own, and measures it"
    ),
]

RATE = {"throttle_operations": 5, "throttle_burst": 10}


@pytest.fixture
def rated(new_bus: Callable[..., Any]) -> Iterator[tuple[Bus, SyncSdk]]:
    """A bus on which five operations per second are allowed, and ten at once."""
    with new_bus(tls=True, settings=RATE) as bus:
        bus.create_queue("orders")
        sdk = SyncSdk(bus)
        yield bus, sdk
        sdk.close()


def texts(count: int) -> list[ServiceBusMessage]:
    return [ServiceBusMessage(f"message {number}") for number in range(count)]


def is_taken(sdk: SyncSdk) -> bool:
    try:
        sdk.sender("orders").send_messages(ServiceBusMessage("later"))
    except ServiceBusServerBusyError:
        return False
    return True


def test_a2_too_many_operations_are_refused_with_the_reason(
    rated: tuple[Bus, SyncSdk],
) -> None:
    bus, sdk = rated
    sender = sdk.sender("orders")
    sender.send_messages(texts(25))
    with pytest.raises(ServiceBusServerBusyError, match="is 5 per second") as refused:
        sender.send_messages(ServiceBusMessage("one more"))
    assert "Wait 10 seconds" in str(refused.value)
    administration = SyncAdministration(bus)
    with pytest.raises(HttpResponseError, match="throttle_operations") as busy:
        administration.get_queue("orders")
    assert busy.value.status_code == 503
    administration.close()


def test_a2_receivers_go_on_and_sends_recover(rated: tuple[Bus, SyncSdk]) -> None:
    _, sdk = rated
    sdk.sender("orders").send_messages(texts(15))
    receiver = sdk.receiver("orders")
    for message in receive(receiver, 5):
        receiver.complete_message(message)
    assert not is_taken(sdk)
    eventually(lambda: is_taken(sdk), "the debt is paid off")


def test_a2_slow_store_is_spared_until_it_is_fast_again(
    new_bus: Callable[..., Any],
) -> None:
    settings = {"allow_faults": True, "throttle_commit_ms": 100}
    with new_bus(settings=settings) as bus:
        bus.create_queue("orders")
        sdk = SyncSdk(bus)
        bus.faults.set("slow", delay="0.4s")
        eventually(lambda: not is_taken(sdk), "the slow store is throttled")
        with pytest.raises(ServiceBusServerBusyError, match="throttle_commit_ms"):
            sdk.sender("orders").send_messages(ServiceBusMessage("refused"))
        bus.faults.clear()
        eventually(lambda: is_taken(sdk), "the store is fast again")
        sdk.close()
