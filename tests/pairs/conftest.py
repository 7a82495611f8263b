"""Fixtures of the pairing tests: two sites for a whole run, one world for each test.

A site is started once per test process, and repaired after a test that killed or froze
it.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from twinbus.testing import Bus

from .faces import Clients, two_buses
from .harness_site import Site
from .harness_world import World
from .syphon_world import BACKLOG, Make, SdkSyphon, own_syphon

FOLDER = Path(__file__).parent
# The SDK forgets the sockets of connections that are reset, and of attempts that are
# given up while they connect; that is what these tests do all the time.
VENDOR_LEAKS = (
    "ignore::ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == FOLDER and item.path.name.startswith("test_p"):
            for leak in VENDOR_LEAKS:
                item.add_marker(pytest.mark.filterwarnings(leak))


def _sites(folder: Path, *flags: str) -> Iterator[tuple[Site, Site]]:
    for name in ("primary", "secondary"):
        (folder / name).mkdir()
    primary = Site(folder / "primary", flags=("--namespace", "primary", *flags))
    secondary = Site(folder / "secondary", flags=("--namespace", "secondary", *flags))
    with primary, secondary:
        primary.start_now()
        secondary.start_now()
        yield primary, secondary
        primary.close_administration()
        secondary.close_administration()


@pytest.fixture(scope="session")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Site]]:
    """Two namespaces that know of pairs."""
    yield from _sites(tmp_path_factory.mktemp("sites"))


@pytest.fixture(scope="session")
def strict_sites(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Site, Site]]:
    """Two namespaces that offer nothing but Service Bus."""
    yield from _sites(tmp_path_factory.mktemp("strict-sites"), "--strict")


@pytest_asyncio.fixture
async def world(sites: tuple[Site, Site]) -> AsyncIterator[World]:
    made = World(*sites)
    yield made
    await made.close()


@pytest_asyncio.fixture
async def strict_world(strict_sites: tuple[Site, Site]) -> AsyncIterator[World]:
    made = World(*strict_sites)
    yield made
    await made.close()


@pytest.fixture
def primary() -> Iterator[Bus]:
    """A bus in this process that a syphon brings messages back to."""
    with Bus(store="memory") as bus:
        bus.create_queue("orders")
        yield bus


@pytest.fixture
def secondary() -> Iterator[Bus]:
    """And the one where they wait."""
    with Bus(store="memory", tls=True) as bus:
        bus.create_queue(BACKLOG)
        yield bus


@pytest.fixture
def buses() -> Iterator[tuple[Bus, Bus]]:
    """Two buses in this process, for the faces of pairing."""
    with two_buses() as made:
        yield made


@pytest_asyncio.fixture
async def clients(buses: tuple[Bus, Bus]) -> AsyncIterator[Clients]:
    """The SDK's asynchronous clients of both."""
    made = Clients(*buses, asynchronous=True)
    async with made.primary, made.secondary, made.administration:
        yield made


@pytest.fixture(params=["twinbus.client", "azure-servicebus"])
def make(request: pytest.FixtureRequest) -> Make:
    """A syphon, by each of its engines."""
    return own_syphon if request.param == "twinbus.client" else SdkSyphon
