"""Fixtures of the tests of brokers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .processes import Brokers


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    with Brokers(tmp_path) as made:
        yield made
