"""A store written in format 1 is opened, and everything is found (D16)."""

import sqlite3
import struct
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from twinbus.broker.changes import ChangeSet, FragmentRecord, OutboxEntry, SharedBody
from twinbus.broker.message import DEFERRED, SCHEDULED, Annex
from twinbus.store.base import ExpiryCursor
from twinbus.store.checks.owner import NO_LIMIT, NOW, all_values, message, values
from twinbus.store.sqlite import FORMAT, SqliteStore
from twinbus.store.sqlite_file import open_file

WEEK_MS = 7 * 86_400_000
FIRST = replace(FORMAT, version=1, tables=frozenset())
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
        opened = await store.open("test", NOW)
        assert (opened.epoch, opened.last_batch) == (epoch, 3)
        assert opened.fragments == [RECORD]
        assert opened.purging == [4]
        assert opened.next_scheduled_at == NOW + 5
        await _expect_everything(store)
        await store.close()


async def test_migrated_store_takes_what_format_1_did_not_know(path: Path) -> None:
    store = SqliteStore(path)
    opened = await store.open("test", NOW)
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
