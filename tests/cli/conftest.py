"""Fixtures for tests of commands about pairs."""

from collections.abc import Iterator

import pytest
from pairs.syphon_world import BACKLOG

from twinbus.testing import Bus


@pytest.fixture
def buses() -> Iterator[tuple[Bus, Bus]]:
    """A primary with a queue, and a secondary with its backlog queue."""
    with Bus(store="memory") as primary, Bus(store="memory") as secondary:
        primary.create_queue("orders")
        secondary.create_queue(BACKLOG)
        yield primary, secondary
