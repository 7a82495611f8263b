"""Fixtures of the store tests."""

from pathlib import Path

import pytest

from .places import MemoryPlace, SqliteApartPlace, SqlitePlace


@pytest.fixture
def sqlite_place(tmp_path: Path) -> SqlitePlace:
    return SqlitePlace(tmp_path)


@pytest.fixture(params=["memory", "memory with a term", "sqlite", "sqlite apart"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> MemoryPlace | SqlitePlace:
    """Somewhere to keep content, of each backend, and with each kind of lease."""
    if request.param == "sqlite":
        return SqlitePlace(tmp_path)
    if request.param == "sqlite apart":
        return SqliteApartPlace(tmp_path)
    return MemoryPlace(0 if request.param == "memory" else 30_000)
