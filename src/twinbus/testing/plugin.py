"""The pytest fixtures, found by pytest wherever twinbus is installed."""

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from twinbus.testing.bus import Bus
    from twinbus.testing.bus_namespace import BusNamespace

_numbers = count(1)

# All is imported where it is used: every pytest run on the machine loads this plugin.


@pytest.fixture
def twinbus_bus() -> "Iterator[Bus]":
    """A bus for the test, with a clock that the test moves."""
    from twinbus.testing.bus import Bus

    with Bus() as bus:
        yield bus


@pytest.fixture(scope="session")
def twinbus_shared_bus() -> "Iterator[Bus]":
    """One bus for all tests of the process, in memory, which can fail on purpose."""
    from twinbus.testing.bus import Bus

    with Bus(store="memory", settings={"allow_faults": True}) as bus:
        yield bus


@pytest.fixture
def twinbus_clean_bus(twinbus_shared_bus: "Bus") -> "Iterator[Bus]":
    """That bus, without entities and faults. What the test leaves is removed."""
    try:
        yield twinbus_shared_bus
    finally:
        twinbus_shared_bus.reset()


@pytest.fixture
def twinbus_namespace(twinbus_shared_bus: "Bus") -> "Iterator[BusNamespace]":
    """A namespace for the test on the bus that tests share, removed at its end."""
    number = next(_numbers)
    with twinbus_shared_bus.namespace(f"test-{number}") as namespace:
        yield namespace


@pytest.fixture(scope="session")
def twinbus_hurried_sdk() -> Iterator[None]:
    """azure-servicebus without its pauses, for all tests of the process."""
    from twinbus.testing.hurry import hurried_sdk

    with hurried_sdk():
        yield
