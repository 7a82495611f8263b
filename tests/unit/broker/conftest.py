"""The queue for the tests of this folder."""

import pytest

from .world import Place


@pytest.fixture
def place() -> Place:
    return Place(max_delivery_count=3)
