"""The syphon in the server: the section `[pair]`, and its lease. P12, P13."""

import asyncio
import base64
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from .harness_audit import assert_once_each, eventually
from .harness_site import ROOT_KEY, ROOT_RULE, Site
from .harness_world import World, numbered


class _Servers:
    """Servers of one test that run the syphon between the sites of its world."""

    def __init__(self, world: World, folder: Path) -> None:
        self._world, self._folder = world, folder
        self._sites: list[Site] = []
        folder.joinpath("primary.txt").write_text(
            world.primary.connection_string(world.way.port)
        )
        folder.joinpath("secondary.txt").write_text(
            world.secondary.connection_string(world.secondary_way.port)
        )

    async def started(self, *lines: str) -> Site:
        """A further server, told to run the syphon."""
        folder = self._folder / f"server-{len(self._sites)}"
        folder.mkdir()
        config = "\n".join(
            [
                "[pair]",
                f'primary = "file:{self._folder / "primary.txt"}"',
                f'secondary = "file:{self._folder / "secondary.txt"}"',
                f'primary_name = "{self._world.name}"',
                *lines,
                "",
            ]
        )
        site = Site(folder, config=config)
        self._sites.append(site)
        await site.start()
        return site

    def kill(self) -> None:
        for site in self._sites:
            if site.runs:
                site.kill()


@pytest.fixture
def servers(world: World, tmp_path: Path) -> Iterator[_Servers]:
    made = _Servers(world, tmp_path)
    yield made
    made.kill()


async def _diverted(world: World, queue: str, stem: str, count: int) -> None:
    client = await world.pair()
    world.way.refuse()
    await client.get_queue_sender(queue).send_messages(numbered(stem, count))
    await world.closed(client)
    world.way.heal()


async def test_a_server_brings_the_backlog_back(
    world: World, servers: _Servers
) -> None:
    """P12: no application has to run it; and it is seen in the server's metrics."""
    queue = world.queue()
    await _diverted(world, queue, "m", 20)
    site = await servers.started()
    back = await world.at_primary.received(queue, 20)
    assert_once_each([f"m-{n}" for n in range(20)], back)
    await world.backlog_has(0)
    metrics = await asyncio.to_thread(_metrics, site)
    restored = [
        line
        for line in metrics.splitlines()
        if line.startswith("twinbus_pair_restored_messages_total{") and queue in line
    ]
    assert [float(line.rpartition(" ")[2]) for line in restored] == [20.0]


def _metrics(site: Site) -> str:
    secret = base64.b64encode(f"{ROOT_RULE}:{ROOT_KEY}".encode()).decode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{site.port}/metrics",
        headers={"Authorization": f"Basic {secret}"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        text: str = answer.read().decode()
    return text


async def test_another_server_takes_over(world: World, servers: _Servers) -> None:
    """P12: of several, the one that holds the lease; killed, another goes on."""
    queue = world.queue()
    await world.closed(await world.pair())
    first = await servers.started()
    second = await servers.started()
    await _diverted(world, queue, "a", 5)
    found = await world.at_primary.has(queue, 5)
    assert_once_each([f"a-{n}" for n in range(5)], found)
    holder = first if _restored(first, queue) else second
    assert not (_restored(first, queue) and _restored(second, queue))
    holder.kill()
    await _diverted(world, queue, "b", 5)
    # The lease of one that was killed ends with the lock of its session.
    await eventually(
        lambda: world.primary.message_count(queue) >= 10, "the rest", seconds=90
    )
    await world.backlog_has(0)
    found = await world.at_primary.has(queue, 10)
    assert_once_each([f"{s}-{n}" for s in "ab" for n in range(5)], found)


def _restored(site: Site, queue: str) -> bool:
    return any(
        line.startswith("twinbus_pair_restored_messages_total{") and queue in line
        for line in _metrics(site).splitlines()
    )


async def test_a_server_sends_to_covered_entities_only(
    world: World, servers: _Servers
) -> None:
    """P12: what the section does not cover becomes a dead letter."""
    inside, outside = world.queue("orders"), world.queue("payments")
    await _diverted(world, inside, "in", 2)
    await _diverted(world, outside, "out", 2)
    await servers.started(f'cover = ["{world.name}-orders-*"]')
    back = await world.at_primary.received(inside, 2)
    assert_once_each(["in-0", "in-1"], back)
    await world.backlog_has(0)
    assert world.primary.message_count(outside) == 0
    dead = sum(world.secondary.message_count(world.backlog_path(n)) for n in range(2))
    assert dead == 2
