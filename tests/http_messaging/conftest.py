"""A bus for each test, used over HTTP and by the vendor's SDK."""

from collections.abc import Iterator

import pytest
from bulk.sdk import Sdk

from twinbus.testing import Bus

from .caller import Caller


@pytest.fixture
def bus() -> Iterator[Bus]:
    """Its time is the test's."""
    with Bus() as started:
        yield started


@pytest.fixture
def call(bus: Bus) -> Iterator[Caller]:
    """With all claims."""
    caller = Caller.of(bus)
    yield caller
    caller.close()


@pytest.fixture
def sdk(bus: Bus) -> Iterator[Sdk]:
    with Sdk(bus) as opened:
        yield opened


@pytest.fixture
def queue(bus: Bus) -> str:
    bus.create_queue("orders")
    return "orders"
