"""The world that the tests of this folder act in."""

import pytest

from .world import World


@pytest.fixture
def world() -> World:
    return World()
