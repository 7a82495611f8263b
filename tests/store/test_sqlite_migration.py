"""A store of an older format is opened, with everything in it."""

import sqlite3
import struct
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from twinbus.broker.changes import (
    ChangeSet,
    FragmentRecord,
    OutboxEntry,
    ReaderLease,
    SharedBody,
    StoredRule,
)
from twinbus.broker.message import DEFERRED, SCHEDULED, Annex
from twinbus.store import sqlite_copy
from twinbus.store.base import (
    ExpiryCursor,
    StoreError,
    StoreFull,
    StoreUnreadable,
)
from twinbus.store.checks.owner import NO_LIMIT, NOW, all_values, message, values
from twinbus.store.opening import open_store
from twinbus.store.sqlite import FORMAT, SqliteStore
from twinbus.store.sqlite_file import migrate, open_file

WEEK_MS = 7 * 86_400_000
FIRST = replace(FORMAT, version=1, tables=frozenset())
SECOND = replace(FORMAT, version=2, tables=frozenset())
REASON = Annex(dead_letter_reason="bad", enqueued_sequence_number=7)
REASON_IN_FORMAT_1 = b"\x01\x01" + struct.pack("<qqI", 7, 0, 3) + b"bad"
RECORD = FragmentRecord(
    number=1,
    generation=bytes(16),
    index=0,
    sub_queue=0,
    next_sequence=9,
    last_enqueued_at=NOW,
    active_count=2,
    deferred_count=1,
    scheduled_count=1,
    size_bytes=12,
)
ACTIVE = [
    message(1, 1, annex=REASON, delivery_count=2),
    message(1, 2, ttl_ms=60_000, raw=bytes(40_000)),
]
LATER = message(1, 4, state=SCHEDULED, scheduled_at=NOW + 5)
DEFERRED_ONE = message(1, 3, state=DEFERRED, annex=REASON)


def _fill(db: sqlite3.Connection) -> None:
    """What code of that format would have written."""
    first, second = ACTIVE
    bucket = second.expires_at // 60_000
    for table, row in (
        ("fragment", (1, bytes(16), 0, 0, 9, NOW, 2, 1, 1, 12)),
        ("dropped_fragment", (4,)),
        (
            "message",
            (first.row_id, NOW, 0, None, 2, 7, REASON_IN_FORMAT_1, None, b"raw"),
        ),
        ("message", (second.row_id, NOW, 60_000, bucket, 0, 7, None, None, second.raw)),
        (
            "deferred",
            (DEFERRED_ONE.row_id, NOW, 0, 0, 7, REASON_IN_FORMAT_1, None, b"raw"),
        ),
        ("scheduled", (LATER.row_id, NOW + 5, NOW, 0, 0, 7, None, None, b"raw")),
        ("outbox", (1, "target", b"origin", b"raw")),
        ("ledger_range", ("site", b"g", 1, 5)),
        ("ledger_id", (1, b"id", NOW)),
        ("operation_log", (3, b"operations")),
    ):
        marks = ", ".join("?" * len(row))
        db.execute(f"INSERT INTO {table} VALUES ({marks})", row)
    db.execute("UPDATE lease SET epoch = 6, batch = 3")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of format 1 that has something of everything."""
    path = tmp_path / "store.sqlite3"
    with closing(open_file(path, FIRST)) as db:
        assert db.execute("SELECT format_version FROM meta").fetchone() == (1,)
        _fill(db)
    return path


async def _expect_everything(store: SqliteStore) -> None:
    found = await store.read_active(1, 0, 9, NO_LIMIT)
    assert all_values(found) == all_values(ACTIVE)
    found = await store.browse(1, 0, 9, NO_LIMIT)
    assert all_values(found) == all_values([*ACTIVE, DEFERRED_ONE, LATER])
    assert all_values(await store.due(NOW + 5, 9)) == all_values([LATER])
    found, _ = await store.expired(NOW + 3_600_000, ExpiryCursor(), 9)
    assert all_values(found) == all_values(ACTIVE[1:])
    entry = OutboxEntry(entry_id=1, target="target", raw=b"raw", origin=b"origin")
    assert await store.outbox(9) == [entry]
    assert await store.restored("site", b"g", [5, 6]) == {5}
    assert await store.seen(1, [b"id"], NOW + WEEK_MS - 1) == {b"id"}
    assert await store.seen(1, [b"id"], NOW + WEEK_MS) == set()
    assert await store.operations(0, 9) == [(3, b"operations")]


async def test_everything_of_format_1_is_found(path: Path) -> None:
    store = SqliteStore(path)
    for epoch in (7, 8):
        opened = await open_store(store, "test", NOW)
        assert (opened.epoch, opened.last_batch) == (epoch, 3)
        assert opened.fragments == [RECORD]
        assert opened.purging == [4]
        assert opened.next_scheduled_at == NOW + 5
        await _expect_everything(store)
        await store.close()


async def test_migrated_store_takes_what_format_1_did_not_know(path: Path) -> None:
    store = SqliteStore(path)
    opened = await open_store(store, "test", NOW)
    of_session = message(1, 5, session_id="s")
    shared = message(1, 6, body_id=9, is_shared=True, raw=b"shared")
    changes = ChangeSet()
    changes.active_added += [of_session, shared]
    changes.bodies_added.append(SharedBody(body_id=9, raw=b"shared"))
    changes.bodies_taken.append(9)
    changes.seal(opened.epoch, 4, NOW)
    await store.commit(changes)
    assert await store.active_sessions(1, None, 9) == ["s"]
    (found,) = await store.read_session(1, "s", 0, 9, NO_LIMIT)
    assert values(found) == values(of_session)
    found = (await store.read_active(1, 5, 9, NO_LIMIT))[0]
    assert values(found) == values(shared)
    await store.close()


# --- the copy that is kept ----------------------------------------------------------


def rows_of(path: Path) -> dict[str, list[object]]:
    """Everything in a file, by table."""
    with closing(sqlite3.connect(path)) as db:
        names = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {
            name: sorted(db.execute(f"SELECT * FROM {name}").fetchall(), key=repr)
            for (name,) in names.fetchall()
        }


def put_back(copy: Path, path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-confirmed"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    copy.rename(path)


async def test_a_copy_of_the_old_format_is_kept(path: Path) -> None:
    before = rows_of(path)
    store = SqliteStore(path)
    await open_store(store, "test", NOW)
    await store.close()
    copy = path.with_name(f"{path.name}.format-1")
    assert rows_of(copy) == before
    assert copy.stat().st_mode & 0o077 == 0
    assert [file.name for file in path.parent.glob("*.new*")] == []
    # It can be put back, and is migrated again.
    put_back(copy, path)
    await open_store(store, "test", NOW)
    await _expect_everything(store)
    await store.close()


async def test_looking_at_a_store_keeps_no_copy(path: Path) -> None:
    await SqliteStore(path).survey()
    assert list(path.parent.glob("*.format-*")) == []


async def test_without_room_for_a_copy_nothing_is_migrated(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rows_of(path)
    monkeypatch.setattr(
        sqlite_copy.shutil, "disk_usage", lambda folder: SimpleNamespace(free=1)
    )
    with pytest.raises(StoreFull, match="1 are free"):
        await open_store(SqliteStore(path), "test", NOW)
    assert rows_of(path) == before
    assert list(path.parent.glob("*.format-*")) == []


async def test_a_copy_that_lacks_rows_is_not_trusted(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rows_of(path)
    counts = sqlite_copy._row_counts

    def one_less(db: sqlite3.Connection) -> dict[str, int]:
        found = counts(db)
        file = db.execute("PRAGMA database_list").fetchone()[2]
        return {**found, "message": 1} if file.endswith(".new") else found

    monkeypatch.setattr(sqlite_copy, "_row_counts", one_less)
    with pytest.raises(StoreError, match="lacks rows"):
        await open_store(SqliteStore(path), "test", NOW)
    assert rows_of(path) == before


# --- format 2 ---------------------------------------------------------------------

RULE = StoredRule(fragment_number=1, name="all", definition="{}", created_at=NOW)
OF_SESSION = message(1, 1, session_id="s")
SHARED = message(1, 2, raw=b"shared", body_id=9, is_shared=True)
DEFERRED_SHARED = message(
    1, 3, raw=b"shared", state=DEFERRED, body_id=9, is_shared=True
)
LEASE = ReaderLease(
    fragment_number=1, reader="spark", epoch=5, duration_ms=60_000, expires_at=NOW
)


def _fill_second(db: sqlite3.Connection) -> None:
    """What code of format 2 would have written, as its columns are named."""
    for table, row in (
        ("fragment", {"number": 1, "generation": bytes(16), "fragment_index": 0}),
        ("message", {"row_id": OF_SESSION.row_id, "raw": b"raw", "session_id": "s"}),
        (
            "message",
            {"row_id": SHARED.row_id, "raw": b"", "body_id": 9, "is_shared": 1},
        ),
        (
            "deferred",
            {"row_id": DEFERRED_SHARED.row_id, "raw": b"", "body_id": 9}
            | {"is_shared": 1},
        ),
        ("shared_body", {"body_id": 9, "raw": b"shared"}),
        ("body_use", {"body_id": 9, "use_count": 2}),
        (
            "session_state",
            {"fragment_number": 1, "session_id": "s", "updated_at": NOW}
            | {"state": b"kept"},
        ),
        (
            "rule",
            {"fragment_number": 1, "name": "all", "definition": "{}"}
            | {"created_at": NOW},
        ),
    ):
        columns = _completed(db, table, row)
        marks = ", ".join("?" * len(columns))
        names = ", ".join(columns)
        values = list(columns.values())
        db.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", values)
    db.execute("UPDATE lease SET epoch = 6, batch = 3")


def _completed(
    db: sqlite3.Connection, table: str, row: dict[str, object]
) -> dict[str, object]:
    """The row with what every message, and every fragment, has besides."""
    common = {"enqueued_at": NOW, "ttl_ms": 0, "delivery_count": 0, "layout": 7}
    counters = {"sub_queue": 0, "next_sequence": 9, "last_enqueued_at": NOW}
    counters |= {"active_count": 2, "deferred_count": 1, "scheduled_count": 0}
    counters |= {"size_bytes": 12}
    known = {column[1] for column in db.execute(f"PRAGMA table_info({table})")}
    return {k: v for k, v in {**common, **counters, **row}.items() if k in known}


@pytest.fixture
def second(tmp_path: Path) -> Path:
    """A store of format 2 that has what format 1 did not know."""
    path = tmp_path / "second.sqlite3"
    with closing(open_file(path, SECOND)) as db:
        assert db.execute("SELECT format_version FROM meta").fetchone() == (2,)
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        assert "rule" in tables and "reader_lease" not in tables
        _fill_second(db)
    return path


async def test_everything_of_format_2_is_found(second: Path) -> None:
    store = SqliteStore(second)
    for epoch in (7, 8):
        opened = await open_store(store, "test", NOW)
        assert (opened.epoch, opened.last_batch) == (epoch, 3)
        found = await store.read_active(1, 0, 9, NO_LIMIT)
        assert all_values(found) == all_values([OF_SESSION, SHARED])
        found = await store.read_deferred([DEFERRED_SHARED.row_id])
        assert all_values(found) == all_values([DEFERRED_SHARED])
        assert await store.session_state(1, "s") == b"kept"
        assert await store.rules() == [RULE]
        outlines = await store.outlines(1, 0, 9, 9)
        assert (outlines.sizes, outlines.body_ids) == ([3, 6], [0, 9])
        assert await store.reader_leases() == []
        await store.close()


@pytest.mark.parametrize("older", ["path", "second"])
async def test_migrated_store_keeps_reader_leases(
    older: str, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(older)
    store = SqliteStore(path)
    opened = await open_store(store, "test", NOW)
    changes = ChangeSet()
    changes.reader_leases.append(LEASE)
    changes.seal(opened.epoch, 4, NOW)
    await store.commit(changes)
    await store.close()
    await open_store(store, "test", NOW)
    assert await store.reader_leases() == [LEASE]
    await store.close()
    with closing(sqlite3.connect(path)) as db:
        versions = "SELECT format_version, min_reader_version FROM meta"
        assert db.execute(versions).fetchone() == (FORMAT.version, FORMAT.version)


async def test_code_of_format_2_refuses_a_store_with_readers(second: Path) -> None:
    """It would hand out what a reader was promised."""
    store = SqliteStore(second)
    await open_store(store, "test", NOW)
    await store.close()
    with closing(open_file(second, SECOND)) as db:
        with pytest.raises(StoreUnreadable, match="knows formats up to 2"):
            migrate(db, second, SECOND)
