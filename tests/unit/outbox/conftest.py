"""The fixtures of this folder."""

from collections.abc import AsyncIterator

import pytest

from .world import World


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.start()
    yield world
    await world.stop()
