"""`twinbus serve`, `check` and `recover` with several stores."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from twinbus.cli import exit_codes

from .command import Serving, run

FREE = ("--port", "0", "--http-port", "0", "--tls-port", "0")
QUEUES = "[queues.one]\n[queues.two]\n[topics.news.subscriptions.all]\n"


def stores(*names: str) -> tuple[str, ...]:
    return tuple(word for name in names for word in ("--store", f"sqlite:///{name}"))


def serve_once(cwd: Path, *names: str, data: str = "data") -> None:
    """Start it, make the queues, and stop it."""
    (cwd / "bus.toml").write_text(QUEUES)
    flags = ("--config", "bus.toml", "--data", data, *FREE, *stores(*names))
    with Serving(*flags, cwd=cwd) as server:
        assert server.stop() == exit_codes.OK


def refusal(cwd: Path, *flags: str, code: int = exit_codes.UNREADABLE) -> str:
    """The last line: warnings of the log may come before."""
    ended = run("serve", *FREE, *flags, cwd=cwd)
    assert (ended.returncode, ended.stdout) == (code, ""), ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stderr.splitlines()[-1]


def paths_in(store: Path) -> set[str]:
    with closing(sqlite3.connect(store)) as db:
        rows = db.execute("SELECT definition FROM entity").fetchall()
    return {json.loads(text)["path"] for (text,) in rows} - {""}


def test_entities_are_spread_and_found_again(tmp_path: Path) -> None:
    serve_once(tmp_path, "a.db", "b.db")
    there = [paths_in(tmp_path / name) for name in ("a.db", "b.db")]
    assert all(there)
    assert set.union(*there) == {"one", "two", "news", "news/Subscriptions/all"}
    assert not set.intersection(*there)
    serve_once(tmp_path, "b.db", "a.db")
    assert [paths_in(tmp_path / name) for name in ("a.db", "b.db")] == there


def test_variables_and_files_name_several_stores(tmp_path: Path) -> None:
    variable = {"TWINBUS_STORE": "sqlite:///a.db, sqlite:///b.db"}
    with Serving(*FREE, cwd=tmp_path, env=variable) as server:
        assert "messages in sqlite:///a.db, sqlite:///b.db" in server.lines[0]
    (tmp_path / "bus.toml").write_text(
        '[server]\nstores = ["sqlite:///a.db", "sqlite:///b.db"]\n'
    )
    with Serving("--config", "bus.toml", *FREE, cwd=tmp_path) as server:
        assert "messages in sqlite:///a.db, sqlite:///b.db" in server.lines[0]


@pytest.mark.parametrize(
    ("urls", "texts"),
    [
        (
            ("sqlite:///a.db", "sqlite:///./a.db"),
            ("'sqlite:///./a.db' is given twice",),
        ),
        (("sqlite:///a.db", "memory:"), ("memory: is one of several", "Leave it out")),
        (("sqlite:///a.db", "sqlite:b"), ("'sqlite:b' names no file", "four slashes")),
        (
            ("sqlite:///a.db", "oracle://me:secret@host/x?password=secret"),
            ("no store of the kind 'oracle'", "oracle://me:***@host/x?password=***"),
        ),
    ],
)
def test_urls_that_cannot_be_meant(
    tmp_path: Path, urls: tuple[str, ...], texts: tuple[str, ...]
) -> None:
    flags = [word for url in urls for word in ("--store", url)]
    line = refusal(tmp_path, *flags, code=exit_codes.USAGE)
    assert all(text in line for text in texts), line
    assert "secret" not in line
    assert not (tmp_path / "a.db").exists()


def test_a_file_that_is_no_store(tmp_path: Path) -> None:
    serve_once(tmp_path, "a.db", "b.db")
    (tmp_path / "b.db").write_bytes(b"something else" * 1000)
    line = refusal(tmp_path, *stores("a.db", "b.db"))
    assert str(tmp_path / "b.db") in line
    # Nothing is held by a process that did not start.
    assert "free" in _lease_of(tmp_path / "a.db")


def _lease_of(store: Path) -> str:
    with closing(sqlite3.connect(store)) as db:
        (owner,) = db.execute("SELECT owner FROM lease").fetchone()
    return "free" if owner is None else str(owner)


def test_a_newer_format(tmp_path: Path) -> None:
    serve_once(tmp_path, "a.db", "b.db")
    with closing(sqlite3.connect(tmp_path / "b.db")) as db, db:
        db.execute("UPDATE meta SET format_version = 99, min_reader_version = 99")
    line = refusal(tmp_path, *stores("a.db", "b.db"))
    assert f"{tmp_path / 'b.db'} has format 99" in line
    assert "newer twinbus" in line


def test_the_same_store_under_two_names(tmp_path: Path) -> None:
    serve_once(tmp_path, "a.db", "b.db")
    shutil.copy(tmp_path / "a.db", tmp_path / "c.db")
    line = refusal(tmp_path, *stores("a.db", "b.db", "c.db"))
    assert "is the same store as another one" in line


def test_a_store_of_another_catalog(tmp_path: Path) -> None:
    serve_once(tmp_path, "a.db", "b.db")
    serve_once(tmp_path, "c.db", "d.db", data="other")
    line = refusal(tmp_path, *stores("a.db", "b.db", "c.db"))
    assert f"The store {tmp_path / 'c.db'} belongs to another catalog" in line
    assert "(--data or --catalog)" in line
    fresh = refusal(tmp_path, "--data", "fresh", *stores("c.db", "e.db"))
    assert "There is no catalog" in fresh


def test_a_store_that_is_not_named_any_more(tmp_path: Path) -> None:
    serve_once(tmp_path, "a.db", "b.db")
    line = refusal(tmp_path, *stores("a.db"))
    assert f"is in the store {tmp_path / 'b.db'}" in line
    assert "--store" in line


def test_a_store_that_was_never_there_is_not_waited_for(tmp_path: Path) -> None:
    serve_once(tmp_path, "a.db", "b.db")
    (tmp_path / "blocked").write_text("a file, not a folder")
    line = refusal(tmp_path, *stores("a.db", "b.db", "blocked/c.db"))
    assert "c.db" in line


def test_another_store_in_the_place_of_one(tmp_path: Path) -> None:
    serve_once(tmp_path, "a.db", "b.db")
    for suffix in ("", "-confirmed"):
        (tmp_path / f"b.db{suffix}").unlink(missing_ok=True)
    serve_once(tmp_path, "b.db", "x.db", data="other")
    line = refusal(tmp_path, *stores("a.db", "b.db"))
    assert "is another store than the one that the catalog knows there" in line


def test_a_store_is_added_to_a_bus_that_had_one(tmp_path: Path) -> None:
    serve_once(tmp_path)
    first = tmp_path / "data" / "messages.sqlite3"
    serve_once(tmp_path, str(first), "b.db")
    assert "one" in paths_in(first)
    assert (tmp_path / "b.db").exists()


def test_check_looks_at_every_store(tmp_path: Path) -> None:
    serve_once(tmp_path, "a.db", "b.db")
    ended = run("check", *stores("a.db", "b.db"), "--json", cwd=tmp_path)
    report = json.loads(ended.stdout)
    assert (ended.returncode, report["whole"]) == (exit_codes.OK, True)
    assert len(report["stores"]) == 2
    with closing(sqlite3.connect(tmp_path / "b.db")) as db, db:
        db.execute("UPDATE fragment SET active_count = active_count + 1")
    ended = run("check", *stores("a.db", "b.db"), cwd=tmp_path)
    assert ended.returncode == exit_codes.DAMAGED
    assert f"{tmp_path / 'b.db'}:" in ended.stdout


def test_recover_brings_back_the_entities_of_every_store(tmp_path: Path) -> None:
    serve_once(tmp_path, "a.db", "b.db")
    both = stores("a.db", "b.db")
    for file in (tmp_path / "data").glob("catalog*"):
        file.unlink()
    line = refusal(tmp_path, *both)
    assert "twinbus recover" in line
    done = run("recover", *both, cwd=tmp_path)
    assert done.returncode == exit_codes.OK, done.stderr
    assert "4 entities with 0 messages recovered" in done.stdout
    before = [paths_in(tmp_path / name) for name in ("a.db", "b.db")]
    serve_once(tmp_path, "a.db", "b.db")
    assert [paths_in(tmp_path / name) for name in ("a.db", "b.db")] == before
    again = run("recover", *both, cwd=tmp_path)
    assert "lacks nothing" in again.stdout
