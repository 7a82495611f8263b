"""Which store a URL selects."""

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

from twinbus.store import urls
from twinbus.store.base import StoreError
from twinbus.store.memory import MemoryStore
from twinbus.store.opening import open_store
from twinbus.store.postgres import PostgresStore
from twinbus.store.sqlite import SqliteStore
from twinbus.store.urls import (
    open_catalog_url,
    open_store_url,
    open_store_urls,
    without_password,
)


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
    with pytest.raises(
        StoreError, match="Available: memory, postgres, postgresql, sqlite"
    ):
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
    assert "memory, postgres, postgresql, sqlite" in str(refused.value)


def test_postgresql_url_names_a_schema() -> None:
    store = open_store_url("postgresql://bus@db1,db2/site?schema=a&sslmode=require")
    assert isinstance(store, PostgresStore)
    shown = "postgresql://bus@db1,db2/site?sslmode=require&schema=a"
    assert store.location == shown
    catalog = open_catalog_url("postgres://db/site")
    assert catalog.location == "postgresql://db/site?schema=twinbus_catalog"


def test_catalog_url_names_a_file(tmp_path: Path) -> None:
    catalog = open_catalog_url(f"sqlite:///{tmp_path}/catalog.sqlite3")
    assert catalog.location == f"{tmp_path}/catalog.sqlite3"
    for url in ("redis://h", "memory:"):
        kind = url.partition(":")[0]
        with pytest.raises(StoreError, match=f"no catalog of the kind '{kind}'"):
            open_catalog_url(url)


def test_missing_driver_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urls, "find_spec", lambda name: None)
    for open_url in (open_store_url, open_catalog_url):
        with pytest.raises(StoreError, match=r"pip install 'twinbus\[postgres\]'"):
            open_url("postgresql://h/d")


def test_base_install_does_not_import_the_driver() -> None:
    code = (
        "import sys; import twinbus.process.server, twinbus.cli.main;"
        "sys.exit('psycopg' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://bus:s3cret@db/site",
        "postgresql://bus:s3c/ret@x:s3cret@db/site?schema=a",
        "postgresql://db/site?user=bus&password=s3cret&sslpassword=s3cret",
        "mysql://bus:s3cret@db/site?password=s3cret",
        "postgresql://bus:s3cret@db/site?schema=Not%20Ours",
        "postgresql://bus:s3cret@",
    ],
)
def test_password_is_never_shown(url: str) -> None:
    assert "s3cret" not in without_password(url)
    try:
        store = open_store_url(url)
    except StoreError as error:
        assert "s3cret" not in str(error)
    else:
        assert isinstance(store, PostgresStore)
        url_of_store = store._server.url
        assert "s3cret" not in f"{store.location} {store!r} {url_of_store!r}"
        assert "s3cret" in url_of_store.conninfo
