"""Fixtures of the tests of brokers."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from .processes import Brokers

WIDE = tuple(f"wide{number}" for number in range(8))
"""Queues of `trio` with fragments in all stores; a test takes one of its own."""


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    with Brokers(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Three brokers, of which no test kills one: they start once."""
    with Brokers(tmp_path_factory.mktemp("trio")) as made:
        asyncio.run(made.start_three(*WIDE))
        yield made
