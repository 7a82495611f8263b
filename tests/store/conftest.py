"""Fixtures of the store tests."""

from pathlib import Path

import pytest

from .places import MemoryPlace, SqlitePlace


@pytest.fixture
def sqlite_place(tmp_path: Path) -> SqlitePlace:
    return SqlitePlace(tmp_path)


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> MemoryPlace | SqlitePlace:
    """Somewhere to keep content, of each backend."""
    return MemoryPlace() if request.param == "memory" else SqlitePlace(tmp_path)
