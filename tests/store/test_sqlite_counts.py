"""Counting a delivery does not write the message again."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from twinbus.broker.changes import ChangeSet
from twinbus.broker.fragment_settings import NO_LIMIT
from twinbus.store.checks.owner import Owner, message, owner_of

from .places import SqlitePlace

COUNT = 10
BODY = bytes(200_000)


@pytest.fixture
async def owner(tmp_path: Path) -> Owner:
    owner = await owner_of(SqlitePlace(tmp_path))
    changes = ChangeSet()
    for number in range(1, COUNT + 1):
        changes.active_added.append(message(1, number, raw=BODY))
    await owner.commit(changes)
    return owner


async def count_delivery(owner: Owner, delivery_count: int) -> None:
    changes = ChangeSet()
    for number in range(1, COUNT + 1):
        changed = message(1, number, raw=BODY, delivery_count=delivery_count)
        changes.active_changed.append(changed)
    await owner.commit(changes)


async def counts(owner: Owner) -> list[int]:
    found = await owner.store.read_active(1, 0, COUNT, NO_LIMIT)
    return [each.delivery_count for each in found]


async def test_counting_writes_a_page_of_each_row(owner: Owner, tmp_path: Path) -> None:
    with closing(sqlite3.connect(SqlitePlace(tmp_path).store_path)) as db, db:
        assert db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
    for number in range(1, 4):
        await count_delivery(owner, number)
        assert await counts(owner) == [number] * COUNT
    path = SqlitePlace(tmp_path).store_path
    wal = path.with_name(f"{path.name}-wal")
    assert wal.stat().st_size < 3 * COUNT * len(BODY) / 5
    await owner.store.close()


async def test_counts_of_rows_that_were_written_before_are_read(
    owner: Owner, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(SqlitePlace(tmp_path).store_path)) as db, db:
        db.execute("UPDATE message SET delivery_count = 3")
    assert await counts(owner) == [3] * COUNT
    await count_delivery(owner, 4)
    assert await counts(owner) == [4] * COUNT
    await owner.store.close()
