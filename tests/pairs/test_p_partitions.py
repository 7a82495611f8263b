"""A pair whose entities and backlog queues are partitioned, in several stores each."""

from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from twinbus.pairing.events import EventKind

from .conftest import VENDOR_LEAKS
from .harness_audit import assert_once_each
from .harness_site import Site
from .harness_world import HASTY, World, message, numbered

pytestmark = [pytest.mark.filterwarnings(leak) for leak in VENDOR_LEAKS]

STORES = """
[server]
fragments = 4
partition_all = true
stores = ["sqlite:///one.sqlite3", "sqlite:///two.sqlite3", "sqlite:///three.sqlite3"]
"""


@pytest.fixture(scope="module")
def partitioned_sites(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Site, Site]]:
    """All their queues have four fragments in three stores."""
    folder = tmp_path_factory.mktemp("partitioned-sites")
    sites = []
    for name in ("primary", "secondary"):
        (folder / name).mkdir()
        flags = ("--namespace", name)
        sites.append(Site(folder / name, config=STORES, flags=flags))
    primary, secondary = sites
    with primary, secondary:
        primary.start_now()
        secondary.start_now()
        yield primary, secondary
        primary.close_administration()
        secondary.close_administration()


@pytest_asyncio.fixture
async def world(partitioned_sites: tuple[Site, Site]) -> AsyncIterator[World]:
    made = World(*partitioned_sites)
    yield made
    await made.close()


def fragments_of(messages: list[Any]) -> set[int]:
    return {one.sequence_number >> 48 for one in messages}


async def test_primary_that_was_away_gets_everything_once(world: World) -> None:
    """P8, P12: with keys and without; some of it was stored before the outage."""
    queue = world.queue()
    client = await world.pair(enable_syphon=True, **HASTY)
    sender = client.get_queue_sender(queue)
    sent = ["before"]
    await sender.send_messages(message("before"))
    # Committed at the primary, but not answered.
    world.way.mute()
    await sender.send_messages(numbered("list", 20))
    for key in ("red", "blue"):
        await sender.send_messages(
            [message(f"{key}-{n}", partition_key=key) for n in range(3)]
        )
    sent += [f"list-{n}" for n in range(20)]
    sent += [f"{key}-{n}" for key in ("red", "blue") for n in range(3)]
    waiting = await world.backlog()
    assert len(fragments_of(waiting)) > 1
    world.primary.kill()
    await sender.send_messages(message("away"))
    sent.append("away")
    await world.primary.start()
    world.way.heal()
    await world.backlog_has(0)
    found = await world.at_primary.has(queue, len(sent))
    assert_once_each(sent, found)
    assert len(fragments_of(found)) > 1
    by_key = defaultdict(set)
    for one in found:
        by_key[one.partition_key].add(one.sequence_number >> 48)
    assert len(by_key["red"]) == 1 == len(by_key["blue"])


async def test_restores_that_were_not_answered_are_not_done_twice(
    world: World,
) -> None:
    """P12: the next attempt has other messages in one batch, and finds each one."""
    queue = world.queue()
    client = await world.pair(enable_syphon=False, **HASTY)
    world.way.refuse()
    sender = client.get_queue_sender(queue)
    await sender.send_messages(message("m-0"))
    await sender.send_messages(numbered("n", 30))
    await world.closed(client)
    world.way.heal()
    # Every commit at the secondary comes late, so that the kill finds some undone.
    world.secondary_way.delay(0.05)
    await world.pair(enable_syphon=True, **HASTY)
    await world.hears(EventKind.RESTORED)
    world.secondary.kill()
    await world.secondary.start()
    world.secondary_way.heal()
    await world.backlog_has(0)
    sent = ["m-0", *(f"n-{n}" for n in range(30))]
    assert_once_each(sent, await world.at_primary.has(queue, len(sent)))


async def test_sessions_keep_their_order(world: World) -> None:
    """P15: a session is in one fragment of the backlog queue, and of its own queue."""
    queue = world.queue(requires_session=True)
    client = await world.pair(
        enable_syphon=True, keep_session_order=True, backlog_queue_count=1, **HASTY
    )
    sender = client.get_queue_sender(queue)
    sessions = ["x", "y", "z"]
    world.way.refuse()
    for number in range(6):
        for session in sessions:
            await sender.send_messages(
                message(f"{session}-{number}", session_id=session)
            )
    waiting = await world.backlog()
    by_session = defaultdict(set)
    for one in waiting:
        by_session[str(one.message_id)[0]].add(one.sequence_number >> 48)
    assert all(len(indexes) == 1 for indexes in by_session.values())
    world.way.heal()
    await world.backlog_has(0)
    for session in sessions:
        found = await world.at_primary.received(queue, 6, session_id=session)
        assert [str(one.message_id) for one in found] == [
            f"{session}-{number}" for number in range(6)
        ]
        assert {one.partition_key for one in found} == {None}
    assert world.primary.message_count(queue) == 0
