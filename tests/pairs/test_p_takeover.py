"""A pair whose primary is served by several brokers, one of which is lost."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from brokers.processes import announced_in, until

from twinbus.cluster.broker_directory import owners_of_stores
from twinbus.pairing.events import EventKind
from twinbus.store.process_identity import is_running
from twinbus.store.sqlite_catalog import SqliteCatalog

from .conftest import VENDOR_LEAKS
from .harness_audit import assert_once_each
from .harness_site import Site
from .harness_world import World, message, timed

pytestmark = [pytest.mark.filterwarnings(leak) for leak in VENDOR_LEAKS]

INTERVAL_SECONDS = 30.0
"""The failover interval: a takeover takes less than ten seconds."""

STORES = """
[server]
stores = ["sqlite:///one.sqlite3", "sqlite:///two.sqlite3", "sqlite:///three.sqlite3"]
"""


@pytest.fixture(scope="module")
def brokered_sites(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Site, Site]]:
    folder = tmp_path_factory.mktemp("brokered-sites")
    for name in ("primary", "secondary"):
        (folder / name).mkdir()
    several = ("--namespace", "primary", "--brokers", "3")
    primary = Site(folder / "primary", config=STORES, flags=several)
    secondary = Site(folder / "secondary", flags=("--namespace", "secondary"))
    with primary, secondary:
        primary.start_now()
        secondary.start_now()
        yield primary, secondary
        primary.close_administration()
        secondary.close_administration()


@pytest_asyncio.fixture
async def world(brokered_sites: tuple[Site, Site]) -> AsyncIterator[World]:
    made = World(*brokered_sites)
    yield made
    await made.close()


async def _owner(data: Path, queue: str) -> int:
    """The process of the broker that has the first fragment of a queue."""
    catalog = SqliteCatalog(data / "catalog.sqlite3")
    await catalog.open()
    try:
        records = (await catalog.snapshot()).entities
    finally:
        await catalog.close()
    [placement] = [one.placement for one in records if one.path == queue]
    alive = [one for one in await announced_in(data) if is_running(one.process)]
    return owners_of_stores(alive)[placement[0]].process.pid


@pytest.mark.parametrize("is_partitioned", [False, True])
async def test_a_takeover_below_the_interval_is_no_failover(
    world: World, is_partitioned: bool
) -> None:
    """P5, P6: the primary answers again before it would be given up; nothing takes the
    detour, and nothing is lost or stored twice."""
    queue = world.queue(enable_partitioning=is_partitioned)
    client = await world.pair(failover_interval=INTERVAL_SECONDS, attempt_timeout=10)
    sent: list[str] = []
    is_over = asyncio.Event()
    sender = client.get_queue_sender(queue)

    async def send() -> None:
        while not is_over.is_set():
            name = f"m-{len(sent)}"
            await sender.send_messages(message(name))
            sent.append(name)

    async def has_sent(count: int) -> bool:
        return len(sent) >= count

    async def sent_more() -> None:
        wanted = len(sent) + 20
        await until(lambda: has_sent(wanted))

    sending = asyncio.create_task(send())
    await sent_more()
    victim = await _owner(world.primary.data, queue)
    lap = timed()
    os.kill(victim, signal.SIGKILL)

    async def has_another_owner() -> bool:
        try:
            return await _owner(world.primary.data, queue) != victim
        except KeyError:
            return False

    await until(has_another_owner)
    await sent_more()
    assert lap() < INTERVAL_SECONDS
    is_over.set()
    await sending
    assert world.told(EventKind.DIVERTED) == []
    assert await world.backlog() == []
    found = await world.at_primary.has(queue, len(sent))
    assert_once_each(sent, found)
