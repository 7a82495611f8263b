"""`twinbus serve --catalog`, `twinbus catalog show` and `twinbus catalog move`."""

import json
import secrets
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest

from bench.postgres_server import PostgresServer
from twinbus.cli import exit_codes

from .command import Serving, complaint, run

FREE = ("--port", "0", "--http-port", "0", "--tls-port", "0")
STORES = ("--store", "sqlite:///a.db", "--store", "sqlite:///b.db")
QUEUES = "[queues.one]\n[topics.news.subscriptions.all]\n"
DEFAULT = "sqlite:///data/catalog.sqlite3"


class Databases:
    """Schemas of a server that nobody else has."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self._prefix = f"c_{secrets.token_hex(6)}"

    def schema(self, name: str) -> str:
        return f"{self._prefix}_{name}"

    def url(self, name: str) -> str:
        return self.server.url(self.schema(name))

    def run(self, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.server.conninfo, autocommit=True) as db:
            done = db.execute(statement)
            return done.fetchall() if done.description else []

    def exists(self, name: str) -> bool:
        found = self.run(f"SELECT to_regnamespace('{self.schema(name)}') IS NOT NULL")
        return found == [(True,)]


@pytest.fixture
def databases(postgres_server: PostgresServer) -> Databases:
    return Databases(postgres_server)


def serve_once(cwd: Path, *flags: str) -> str:
    """Start it, and stop it; returns the key of the root rule."""
    (cwd / "bus.toml").write_text(QUEUES)
    with Serving("--config", "bus.toml", *FREE, *flags, cwd=cwd) as server:
        where = named(flags, "--catalog", "--data")
        asked = run("connection-string", "--port", "1", *where, cwd=cwd)
        assert server.stop() == exit_codes.OK
    assert asked.returncode == 0, asked.stderr
    return asked.stdout.partition("SharedAccessKey=")[2].partition(";")[0]


def named(flags: tuple[str, ...], *names: str) -> tuple[str, ...]:
    """Those flags, with their values."""
    return tuple(w for pair in pairwise(flags) for w in pair if pair[0] in names)


def shown(cwd: Path, *flags: str) -> dict[str, object]:
    ended = run("catalog", "show", "--json", *flags, cwd=cwd)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, object] = json.loads(ended.stdout)
    return found


def refusal(cwd: Path, *flags: str, code: int = exit_codes.UNREADABLE) -> str:
    ended = run("serve", *FREE, *flags, cwd=cwd)
    assert (ended.returncode, ended.stdout) == (code, ""), ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stderr.splitlines()[-1]


def test_catalog_goes_to_a_database_and_back(
    tmp_path: Path, databases: Databases
) -> None:
    key = serve_once(tmp_path, *STORES)
    there = databases.url("catalog")
    moved = run("catalog", "move", *STORES, "--to", there, cwd=tmp_path)
    assert moved.returncode == 0, moved.stderr
    assert ": 3 entities." in moved.stdout
    # The old one says where it went, to all who ask.
    line = refusal(tmp_path, *STORES)
    assert "was moved to" in line and databases.schema("catalog") in line
    assert shown(tmp_path)["state"] == "moved"
    for command in ("brokers", "recover"):
        ended = run(command, *STORES, cwd=tmp_path)
        assert ended.returncode == exit_codes.UNREADABLE and "was moved" in ended.stderr
    found = shown(tmp_path, "--catalog", there)
    assert found["entities"] == {"queue": 1, "subscription": 1, "topic": 1}
    assert found["state"] == "valid"
    # Clients notice nothing.
    assert serve_once(tmp_path, *STORES, "--catalog", there) == key
    back = run(
        *("catalog", "move", *STORES, "--catalog", there, "--to", DEFAULT), cwd=tmp_path
    )
    assert back.returncode == 0, back.stderr
    assert "without --catalog" in back.stdout
    assert serve_once(tmp_path, *STORES) == key


def test_catalog_is_shown_to_people(tmp_path: Path) -> None:
    serve_once(tmp_path, *STORES)
    lines = run("catalog", "show", cwd=tmp_path).stdout.splitlines()
    assert lines[0].endswith("catalog.sqlite3")
    assert "entities    1 queue, 1 subscription, 1 topic" in lines
    line = complaint(
        run("catalog", "show", "--data", "none", cwd=tmp_path), exit_codes.NOT_FOUND
    )
    assert "There is no catalog" in line


def test_running_bus_keeps_its_catalog(tmp_path: Path, databases: Databases) -> None:
    to = ("--to", databases.url("catalog"))
    with Serving(*FREE, *STORES, cwd=tmp_path):
        ended = run("catalog", "move", *STORES, *to, cwd=tmp_path)
        assert "is in use by process" in complaint(ended, exit_codes.IN_USE)
    assert not databases.exists("catalog")
    with Serving(*FREE, "--join", *STORES, cwd=tmp_path):
        ended = run("catalog", "move", *STORES, *to, cwd=tmp_path)
        line = complaint(ended, exit_codes.IN_USE)
        assert "Stop all brokers first" in line
    assert not databases.exists("catalog")


def test_target_with_a_catalog_is_left_alone(
    tmp_path: Path, databases: Databases
) -> None:
    serve_once(tmp_path, *STORES)
    (tmp_path / "other").mkdir()
    url = databases.url("catalog")
    serve_once(
        tmp_path, "--data", "other", "--catalog", url, "--store", databases.url("s")
    )
    before = shown(tmp_path, "--catalog", url)
    ended = run("catalog", "move", *STORES, "--to", url, cwd=tmp_path)
    assert "holds a catalog already" in complaint(ended, exit_codes.UNREADABLE)
    assert shown(tmp_path, "--catalog", url) == before
    assert shown(tmp_path)["state"] == "valid"


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("memory:", "no catalog of the kind 'memory'"),
        ("redis://x", "Available: postgresql, sqlite"),
        ("sqlite:x", "names no file"),
        ("postgresql://", "names no database"),
    ],
)
def test_wrong_catalog_is_refused(tmp_path: Path, url: str, text: str) -> None:
    flags = ("--catalog", url, "--store", "sqlite:///a.db")
    assert text in refusal(tmp_path, *flags, code=exit_codes.USAGE)
    assert not (tmp_path / "a.db").exists(), "nothing was made"
    ended = run("catalog", "move", "--to", url, cwd=tmp_path)
    assert text in complaint(ended, exit_codes.USAGE)


def test_catalog_that_is_away_is_refused(tmp_path: Path) -> None:
    url = "postgresql://u@127.0.0.1:1/d?connect_timeout=1"
    line = refusal(tmp_path, "--catalog", url, "--store", "sqlite:///a.db")
    assert "could not be reached" in line
    assert not (tmp_path / "a.db").exists(), "nothing was made"


def test_password_of_the_catalog_is_not_shown(tmp_path: Path) -> None:
    url = "postgresql://u:geheim@127.0.0.1:1/d?connect_timeout=1"
    for command in ("serve", "brokers", "connection-string"):
        flags = FREE if command == "serve" else ()
        ended = run(command, *flags, "--catalog", url, cwd=tmp_path)
        assert ended.returncode != 0
        assert "geheim" not in ended.stderr + ended.stdout


def test_catalog_for_memory_is_refused(tmp_path: Path) -> None:
    flags = ("--catalog", "sqlite:///c.db", "--store", "memory:")
    line = refusal(tmp_path, *flags, code=exit_codes.USAGE)
    assert "memory: keeps nothing" in line


def test_catalog_of_a_newer_format_is_refused(
    tmp_path: Path, databases: Databases
) -> None:
    flags = ("--catalog", databases.url("c"), "--store", databases.url("s"))
    serve_once(tmp_path, *flags)
    table = f"{databases.schema('c')}.twinbus_meta"
    databases.run(f"UPDATE {table} SET format_version = 99, min_reader_version = 98")
    assert "Use a newer twinbus" in refusal(tmp_path, *flags)


def test_store_of_a_newer_format_is_refused(
    tmp_path: Path, databases: Databases
) -> None:
    flags = ("--catalog", databases.url("c"), "--store", databases.url("s"))
    serve_once(tmp_path, *flags)
    table = f"{databases.schema('s')}.twinbus_meta"
    databases.run(f"UPDATE {table} SET format_version = 99, min_reader_version = 98")
    assert "Use a newer twinbus" in refusal(tmp_path, *flags)


def test_store_that_is_gone_is_not_made_again(
    tmp_path: Path, databases: Databases
) -> None:
    flags = ("--catalog", databases.url("c"), "--store", databases.url("s"))
    serve_once(tmp_path, *flags)
    databases.run(f"DROP SCHEMA {databases.schema('s')} CASCADE")
    assert "the catalog knows a store there" in refusal(tmp_path, *flags)
    assert not databases.exists("s")


def test_store_of_another_cluster_is_refused(
    tmp_path: Path, databases: Databases
) -> None:
    """Two sites, two catalogs, one store."""
    first = ("--catalog", databases.url("c1"), "--store", databases.url("s"))
    serve_once(tmp_path, *first)
    second = ("--catalog", databases.url("c2"), "--store", databases.url("s"))
    line = refusal(tmp_path, "--data", "second", *second)
    assert "There is no catalog" in line or "belongs to another catalog" in line
    assert not databases.exists("c2")
    serve_once(
        tmp_path,
        *("--data", "second", "--catalog", databases.url("c2")),
        *("--store", databases.url("s2")),
    )
    line = refusal(
        tmp_path, "--data", "second", *second, "--store", databases.url("s2")
    )
    assert "belongs to another catalog" in line
    serve_once(tmp_path, *first)


def test_two_sites_do_not_share_a_catalog(tmp_path: Path, databases: Databases) -> None:
    first = ("--catalog", databases.url("c"), "--store", databases.url("s1"))
    other = ("--data", "other", "--catalog", databases.url("c"))
    serve_once(tmp_path, *first)
    line = refusal(tmp_path, *other, "--store", databases.url("s2"))
    assert "which is not among the stores of this bus" in line
    with Serving(*FREE, *first, cwd=tmp_path):
        line = refusal(tmp_path, *other, "--store", databases.url("s2"))
        assert "The catalog does not know the store" in line


def test_key_of_the_first_broker_is_that_of_all(
    tmp_path: Path, databases: Databases
) -> None:
    flags = ("--catalog", databases.url("c"), "--store", databases.url("s"))
    with Serving(*FREE, *flags, cwd=tmp_path) as server:
        printed = server.printed_connection_string
        assert server.stop() == exit_codes.OK
    key = serve_once(tmp_path, "--data", "elsewhere", *flags)
    assert f"SharedAccessKey={key};" in printed
    assert not (tmp_path / "data" / "root-key").exists()


def test_file_beside_the_data_folder_has_the_key_too(tmp_path: Path) -> None:
    flags = ("--catalog", "sqlite:///shared/c.db", *STORES)
    assert serve_once(tmp_path, *flags) == serve_once(
        tmp_path, "--data", "other", *flags
    )
    assert (tmp_path / "shared" / "c.db").exists()
    assert not (tmp_path / "data" / "catalog.sqlite3").exists()
