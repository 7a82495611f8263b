"""Fixtures of the store tests."""

from pathlib import Path

import pytest

from bench.postgres_server import PostgresServer

from .places import MemoryPlace, PostgresPlace, SqliteApartPlace, SqlitePlace


@pytest.fixture
def sqlite_place(tmp_path: Path) -> SqlitePlace:
    return SqlitePlace(tmp_path)


@pytest.fixture
def postgres_place(postgres_server: PostgresServer) -> PostgresPlace:
    return PostgresPlace(postgres_server)


@pytest.fixture(
    params=["memory", "memory with a term", "sqlite", "sqlite apart", "postgres"]
)
def place(
    request: pytest.FixtureRequest, tmp_path: Path
) -> MemoryPlace | SqlitePlace | PostgresPlace:
    """Somewhere to keep content, of each backend, and with each kind of lease."""
    if request.param == "sqlite":
        return SqlitePlace(tmp_path)
    if request.param == "sqlite apart":
        return SqliteApartPlace(tmp_path)
    if request.param == "postgres":
        return PostgresPlace(request.getfixturevalue("postgres_server"))
    return MemoryPlace(0 if request.param == "memory" else 30_000)
