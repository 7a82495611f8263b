"""The fixtures of this folder."""

import pytest

from .world import World


@pytest.fixture
def world() -> World:
    return World()
