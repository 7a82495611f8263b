"""The queue that the tests of this folder act on."""

import pytest

from .world import Place


@pytest.fixture
def place() -> Place:
    return Place(max_delivery_count=3)
