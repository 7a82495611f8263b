"""The format of a SQLite store: migrations, plans of its statements, its ledgers."""

import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from twinbus.broker.changes import ChangeSet, LedgerRange
from twinbus.store import sqlite_file
from twinbus.store.sqlite import FORMAT, SqliteStore
from twinbus.store.sqlite_errors import transaction
from twinbus.store.statements import migrations, named_statements

from . import workload


def test_statements_have_names() -> None:
    statements = named_statements("sqlite_store.sql")
    assert statements["last_batch"] == "SELECT batch FROM lease;"
    for name, statement in statements.items():
        assert sqlite3.complete_statement(statement), name
        assert statement.count(";") == 1, name


def test_migrations_are_numbered_without_gaps_up_to_the_format() -> None:
    numbers = [number for number, _ in migrations(FORMAT.migrations)]
    assert numbers == list(range(1, FORMAT.version + 1))


async def test_older_format_is_migrated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.sqlite3"
    store = SqliteStore(path)
    await workload.commit_up_to(store, "test", 3)
    await store.close()
    second = [
        "CREATE TABLE session (id BLOB)",
        "UPDATE meta SET format_version = 2, min_reader_version = 2",
    ]
    both = [*migrations(FORMAT.migrations), (2, second)]
    monkeypatch.setattr(sqlite_file, "migrations", lambda folder: both)
    newer = replace(FORMAT, version=2, tables=FORMAT.tables | {"session"})
    with closing(sqlite_file.open_file(path, newer)) as db:
        for _ in range(2):
            with transaction(db, path):
                sqlite_file.migrate(db, path, newer)
        assert db.execute("SELECT count(*) FROM session").fetchone() == (0,)
        assert db.execute("SELECT format_version FROM meta").fetchone() == (2,)
        assert db.execute("SELECT batch FROM lease").fetchone() == (3,)


@pytest.mark.parametrize(
    "name",
    ["read_active", "browse", "due", "expired", "purge_active", "delete_active"],
)
async def test_statement_reads_no_more_than_it_needs(name: str, tmp_path: Path) -> None:
    """Opening and reading cost the same whatever the backlog."""
    store = SqliteStore(tmp_path / "store.sqlite3")
    await store.open("test", 1)
    statement = named_statements("sqlite_store.sql")[name]
    names = dict.fromkeys(
        ["first", "last", "limit", "bucket", "row_id", "current_bucket"], 0
    )
    parameters = names if ":" in statement else [0] * statement.count("?")
    plan = store._db.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
    steps = [detail for _, _, _, detail in plan]
    assert any(step.startswith("SEARCH") for step in steps)
    assert not [s for s in steps if s.startswith("SCAN") or "TEMP B-TREE" in s], steps
    await store.close()


async def test_adjoining_ranges_are_one_row(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.sqlite3")
    opened = await store.open("test", 1)
    for number, (first, last) in enumerate([(1, 5), (7, 8), (6, 6)], 1):
        changes = ChangeSet()
        changes.ledger_ranges.append(
            LedgerRange(source="s", generation=b"g", first=first, last=last)
        )
        changes.seal(opened.epoch, number, 1)
        await store.commit(changes)
    ranges = store._db.execute("SELECT first, last FROM ledger_range").fetchall()
    assert ranges == [(1, 8)]
    await store.close()


async def test_read_that_ended_early_does_not_hold_the_wal(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite3"
    store = SqliteStore(path)
    await workload.commit_up_to(store, "test", 3)
    await store.read_active(workload.FRAGMENT, 0, 100, 1)
    await store.browse(workload.FRAGMENT, 0, 100, 1)
    busy, in_wal, copied = store._db.execute(
        "PRAGMA wal_checkpoint(TRUNCATE)"
    ).fetchone()
    assert (busy, in_wal, copied) == (0, 0, 0)
    await store.close()
    assert os.listdir(tmp_path) == [path.name], "closing leaves one file"
