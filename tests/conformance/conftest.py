"""Fixtures of the conformance cases: a bus for each module, both halves of the SDK.

Every case gets its own queues, so that the cases of a module can share a bus. A module
that moves the clock does so in small steps: the SDK signs tokens for an hour by the
wall clock, and for a bus far ahead they would have expired. What a bus is made of
is in `setups.py`.
"""

import itertools
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from twinbus.testing import Bus

from .sdk import AsyncSdk, SyncSdk
from .setups import bus_on, chosen_setup, setups_of, why_it_differs

_FACES = {"sync": SyncSdk, "async": AsyncSdk}
_numbers = itertools.count(1)

# The longest there is: the SDK itself refuses to settle once the lock has run out by
# the wall clock, whatever the clock of the bus says.
LONG_LOCK = timedelta(minutes=5)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    setups = setups_of(metafunc.definition)
    if len(setups) > 1 and "setup" in metafunc.fixturenames:
        metafunc.parametrize("setup", setups, indirect=True, scope="module")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if why := why_it_differs(item):
        pytest.skip(why)


@pytest.fixture(scope="module")
def setup(request: pytest.FixtureRequest) -> str:
    """The name of the set-up."""
    name: str = getattr(request, "param", chosen_setup())
    return name


@pytest.fixture(scope="module")
def new_bus(request: pytest.FixtureRequest, setup: str) -> Callable[..., Any]:
    """Makes a bus on the set-up; takes `tls` and `settings`."""
    return lambda **options: bus_on(request, setup, **options)


@pytest.fixture(scope="module")
def bus(new_bus: Callable[..., Any]) -> Iterator[Bus]:
    """The bus that the cases of a module share."""
    with new_bus() as running:
        yield running


@pytest.fixture(scope="module", params=["sync", "async"])
def sdk(request: pytest.FixtureRequest, bus: Bus) -> Iterator[Any]:
    """One half of the SDK after the other, connected to the module's bus."""
    face = _FACES[request.param](bus)
    yield face
    face.close()


@pytest.fixture(scope="module")
def sync_sdk(bus: Bus) -> Iterator[SyncSdk]:
    """The sync half alone, for what does not depend on the half."""
    face = SyncSdk(bus)
    yield face
    face.close()


@pytest.fixture
def make_queue(bus: Bus) -> Callable[..., str]:
    """Creates a queue with the given settings and a fresh name; gives the name."""

    def make(**settings: Any) -> str:
        name = f"queue-{next(_numbers)}"
        bus.create_queue(name, **{"lock_duration": LONG_LOCK, **settings})
        return name

    return make


@pytest.fixture
def make_topic(bus: Bus) -> Callable[..., str]:
    """Creates a topic with the given settings, a fresh name and no subscription."""

    def make(**settings: Any) -> str:
        name = f"topic-{next(_numbers)}"
        bus.create_topic(name, **settings)
        return name

    return make


@pytest.fixture
def queue(make_queue: Callable[..., str]) -> str:
    """The name of a fresh queue with default settings and a long lock."""
    return make_queue()


@pytest.fixture(params=["sync", "async"])
def own(request: pytest.FixtureRequest, new_bus: Callable[..., Any]) -> Iterator[Any]:
    """Half of the SDK on a bus of its own, for what must not disturb other cases."""
    with new_bus() as running:
        face = _FACES[request.param](running)
        yield face
        face.close()


@pytest.fixture
def own_sync(new_bus: Callable[..., Any]) -> Iterator[SyncSdk]:
    """The sync half alone, on a bus of its own."""
    with new_bus() as running:
        face = SyncSdk(running)
        yield face
        face.close()
