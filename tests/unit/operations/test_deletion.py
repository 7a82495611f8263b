"""Batch delete over all fragments, one after the other."""

import pytest
from unit.entities.world import World

from twinbus.errors import FragmentUnavailable
from twinbus.operations.deletion import delete_messages

from .callers import opened
from .spread import fragments, owner_at, take_away
from .test_peeking import fill

PARTITIONED = {"enable_partitioning": True}


async def test_so_many_are_removed_over_all_fragments(spread: World) -> None:
    await spread.namespace.create_queue("orders", PARTITIONED)
    await fill(spread, 2, 2, 2, 2)
    now = spread.clock.now()
    assert await delete_messages(opened(spread), 5, now) == 5
    assert [one.active_count for one in fragments(spread)] == [0, 0, 1, 2]
    assert await delete_messages(opened(spread), 5, now) == 3
    assert await delete_messages(opened(spread), 5, now) == 0


async def test_later_messages_stay_in_every_fragment(spread: World) -> None:
    await spread.namespace.create_queue("orders", PARTITIONED)
    await fill(spread, 1, 1, 1, 1)
    before = spread.clock.now()
    spread.clock.advance(1_000)
    await fill(spread, 1, 1, 1, 1)
    assert await delete_messages(opened(spread), 99, before) == 4
    assert [one.active_count for one in fragments(spread)] == [1, 1, 1, 1]


async def test_nothing_is_removed_while_a_fragment_is_away(several: World) -> None:
    await several.namespace.create_queue("orders", PARTITIONED)
    await fill(several, 1, 1, 1, 1)
    await take_away(several, owner_at(several, 2))
    with pytest.raises(FragmentUnavailable, match="Fragment 2"):
        await delete_messages(opened(several), 9, several.clock.now())
    assert [one.active_count for one in fragments(several)] == [1, 1, 1, 1]
