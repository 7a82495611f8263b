"""A bus for each test, used by bulk requests and by the vendor's SDK."""

from collections.abc import Iterator

import pytest

from twinbus.testing import Bus

from .caller import Caller, token_of
from .sdk import Sdk


@pytest.fixture
def bus() -> Iterator[Bus]:
    """Its time is the test's."""
    with Bus() as started:
        yield started


@pytest.fixture
def call(bus: Bus) -> Iterator[Caller]:
    """With all claims, for ten hours."""
    caller = Caller(bus.port, token_of(bus, seconds=36_000))
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
