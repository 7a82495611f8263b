"""The fixtures of this folder."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from .world import ClusterWorld


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ClusterWorld]:
    world = ClusterWorld(tmp_path)
    await world.prepare()
    yield world
    await world.stop()
