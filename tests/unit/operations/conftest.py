"""The fixtures of this folder."""

from collections.abc import AsyncIterator

import pytest
from unit.entities.conftest import world
from unit.entities.world import World

from .spread import spread_world

__all__ = ["several", "spread", "world"]


@pytest.fixture(params=[1, 3], ids=["one store", "three stores"])
async def spread(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """With four fragments for a partitioned entity."""
    world = spread_world(request.param)
    await world.start()
    yield world
    await world.stop()


@pytest.fixture
async def several() -> AsyncIterator[World]:
    """The same, in three stores. Fragments 0 and 3 share one."""
    world = spread_world(3)
    await world.start()
    yield world
    await world.stop()
