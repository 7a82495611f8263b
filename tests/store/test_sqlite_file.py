"""The format of a SQLite store: migrations, plans of its statements, its ledgers."""

import os
import re
import sqlite3
from collections.abc import Coroutine
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from twinbus.broker.changes import ChangeSet, LedgerRange
from twinbus.store import sqlite_file
from twinbus.store.checks.owner import message
from twinbus.store.opening import open_store
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
    version = FORMAT.version + 1
    following = [
        "CREATE TABLE something (id BLOB)",
        f"UPDATE meta SET format_version = {version}, min_reader_version = {version}",
    ]
    all_of_them = [*migrations(FORMAT.migrations), (version, following)]
    monkeypatch.setattr(sqlite_file, "migrations", lambda folder: all_of_them)
    newer = replace(FORMAT, version=version, tables=FORMAT.tables | {"something"})
    with closing(sqlite_file.open_file(path, newer)) as db:
        for _ in range(2):
            with transaction(db, path):
                sqlite_file.migrate(db, path, newer)
        assert db.execute("SELECT count(*) FROM something").fetchone() == (0,)
        assert db.execute("SELECT format_version FROM meta").fetchone() == (version,)
        assert db.execute("SELECT batch FROM lease").fetchone() == (3,)


@pytest.mark.parametrize(
    "name",
    [
        *("read_active", "browse", "due", "expired", "delete_active"),
        *("read_session", "browse_session", "sessions_updated", "session_state"),
        *("delete_session_state", "delete_rule", "has_ledger_id", "trim_ledger_ids"),
        *("count_body_use", "delete_body_use", "delete_body", "shared_by_active"),
        *("purge_ledger_ids", "purge_session_states", "purge_rules"),
    ],
)
async def test_statement_reads_no_more_than_it_needs(name: str, tmp_path: Path) -> None:
    """Opening and reading cost the same whatever the backlog."""
    store = SqliteStore(tmp_path / "store.sqlite3")
    await open_store(store, "test", 1)
    statement = named_statements("sqlite_store.sql")[name]
    names = dict.fromkeys(re.findall(r":(\w+)", statement), 0)
    count = 2 if "?1" in statement else statement.count("?")
    plan = store._db.execute(
        f"EXPLAIN QUERY PLAN {statement}", names or [0] * count
    ).fetchall()
    steps = [detail for _, _, _, detail in plan]
    assert any(step.startswith("SEARCH") for step in steps)
    assert not [s for s in steps if s.startswith("SCAN") or "TEMP B-TREE" in s], steps
    await store.close()


async def _steps(store: SqliteStore, read: Coroutine[Any, Any, object]) -> int:
    """How many instructions SQLite's machine needs for a read."""
    count = 0

    def step() -> None:
        nonlocal count
        count += 1

    store._db.set_progress_handler(step, 1)
    try:
        await read
    finally:
        store._db.set_progress_handler(None, 1)
    return count


async def test_sessions_are_found_without_walking_over_messages(tmp_path: Path) -> None:
    """A million messages of one session must not stand before the next one."""
    store = SqliteStore(tmp_path / "store.sqlite3")
    opened = await open_store(store, "test", 1)
    steps = []
    sequence = 0
    for batch, length in enumerate((1, 5_000), 1):
        changes = ChangeSet()
        for session_id in "abc":
            for _ in range(length):
                sequence += 1
                changes.active_added.append(message(1, sequence, session_id=session_id))
        changes.seal(opened.epoch, batch, 1)
        await store.commit(changes)
        assert await store.active_sessions(1, None, 9) == ["a", "b", "c"]
        assert await store.active_sessions(1, "a", 1) == ["b"]
        steps.append(
            (
                await _steps(store, store.active_sessions(1, None, 9)),
                await _steps(store, store.active_sessions(1, "a", 1)),
                await _steps(store, store.sessions(1, "b", 9)),
            )
        )
    assert steps[0] == steps[1]
    await store.close()


async def test_purge_walks_over_its_portion_alone(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.sqlite3")
    opened = await open_store(store, "test", 1)
    changes = ChangeSet()
    changes.active_added += [message(1, i, session_id="s") for i in range(1, 3_001)]
    changes.dropped.append(1)
    changes.seal(opened.epoch, 1, 1)
    await store.commit(changes)
    many_left = await _steps(store, store.purge(1, 10))
    await store.purge(1, 2_960)
    few_left = await _steps(store, store.purge(1, 10))
    assert many_left == few_left
    await store.close()


async def test_adjoining_ranges_are_one_row(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.sqlite3")
    opened = await open_store(store, "test", 1)
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
    left = {path.name, f"{path.name}-confirmed"}
    assert set(os.listdir(tmp_path)) == left, "closing leaves no log"
