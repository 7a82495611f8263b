"""Which store a URL selects."""

import contextlib
from pathlib import Path

import pytest

from twinbus.store.base import StoreError
from twinbus.store.memory import MemoryStore
from twinbus.store.opening import open_store
from twinbus.store.sqlite import SqliteStore
from twinbus.store.urls import open_store_url, open_store_urls, without_password


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///data/bus.sqlite3", "data/bus.sqlite3"),
        ("sqlite:////var/lib/bus.sqlite3", "/var/lib/bus.sqlite3"),
        ("SQLite:///a b?c#d%20e", "a b?c#d%20e"),
    ],
)
def test_sqlite_url_names_a_file(url: str, path: str) -> None:
    store = open_store_url(url)
    assert isinstance(store, SqliteStore)
    assert store.path == Path(path)


def test_memory_url_makes_a_new_store() -> None:
    first, second = open_store_url("memory:"), open_store_url("memory:")
    assert isinstance(first, MemoryStore) and isinstance(second, MemoryStore)
    assert first.disk is not second.disk


@pytest.mark.parametrize(
    "url", ["sqlite:", "sqlite:///", "sqlite:data.sqlite3", "memory:x", "memory://h"]
)
def test_malformed_url_is_refused(url: str) -> None:
    with pytest.raises(StoreError, match=url):
        open_store_url(url)


@pytest.mark.parametrize("url", ["redis://host", "data/bus.sqlite3", ""])
def test_unknown_scheme_is_told_what_there_is(url: str) -> None:
    with pytest.raises(StoreError, match="Available: memory, sqlite"):
        open_store_url(url)


async def test_path_with_strange_characters_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "a b?mode=memory#c%41" / "store.sqlite3"
    store = SqliteStore(path)
    await open_store(store, "test", 1)
    assert path.is_file()
    await store.close()


def test_several_stores_are_synced_apart_at_absolute_places(tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        first, second = open_store_urls(
            ["sqlite:///a.db", f"sqlite:///{tmp_path}/b.db"]
        )
    assert first.location == str(tmp_path / "a.db")
    assert second.location == str(tmp_path / "b.db")


@pytest.mark.parametrize("other", ["a.db", "./a.db", "link.db"])
def test_the_same_file_twice_is_refused(tmp_path: Path, other: str) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "a.db")
    with contextlib.chdir(tmp_path), pytest.raises(StoreError, match="given twice"):
        open_store_urls(["sqlite:///a.db", f"sqlite:///{other}"])


def test_memory_beside_a_file_is_refused() -> None:
    with pytest.raises(StoreError, match="memory: is one of several"):
        open_store_urls(["sqlite:///a.db", "memory:"])
    assert len(open_store_urls(["memory:", "memory:"])) == 2


def test_texts_have_no_password() -> None:
    written = "postgresql://me:s3cret@host:5432/bus?sslmode=require&password=s3cret"
    shown = without_password(written)
    assert shown == "postgresql://me:***@host:5432/bus?sslmode=require&password=***"
    assert without_password("sqlite:////a/b:c@d") == "sqlite:////a/b:c@d"
    with pytest.raises(StoreError) as refused:
        open_store_url("oracle://me:s3cret@host/x")
    assert "s3cret" not in str(refused.value)
    assert "memory, sqlite" in str(refused.value)
