"""A catalog of an older format is opened, with a copy kept and every entity there."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from twinbus.store.base import StoreInUse, StoreUnreadable
from twinbus.store.catalog import TOMBSTONE, EntityRecord, unfinished
from twinbus.store.formats import CATALOG, FORMATS
from twinbus.store.process_identity import ProcessIdentity, this_process
from twinbus.store.sqlite_catalog import FORMAT, SqliteCatalog
from twinbus.store.sqlite_file import migrate, open_file

from .places import DEAD_PID

SECOND = replace(FORMAT, version=2, tables=frozenset())
ORDERS = EntityRecord(
    namespace="Shop",
    path="Orders",
    kind="queue",
    generation=bytes(range(16)),
    description={"lock_duration_ms": 30_000},
    created_at=1,
    updated_at=2,
    placement=(bytes(16),),
)
GONE = replace(ORDERS, path="gone", generation=bytes(16))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """What code of format 2 would have written."""
    path = tmp_path / "catalog.sqlite3"
    row = ("shop", "orders", "Shop", "Orders", "queue", ORDERS.generation)
    row = (*row, '{"lock_duration_ms": 30000}', 1, 2, f'["{bytes(16).hex()}"]')
    with closing(open_file(path, SECOND)) as db:
        assert db.execute("SELECT format_version FROM meta").fetchone() == (2,)
        db.execute(f"INSERT INTO entity VALUES ({', '.join('?' * 10)})", row)
        db.execute(
            "INSERT INTO unfinished VALUES (?, ?, 'tombstone', 'Shop', 'gone', 7)",
            (GONE.generation, bytes(16)),
        )
    return path


def put_back(copy: Path, path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    copy.rename(path)


async def test_everything_of_format_2_is_found(path: Path) -> None:
    catalog = SqliteCatalog(path)
    for _ in range(2):
        assert await catalog.open() == [ORDERS]
        assert await catalog.unfinished() == unfinished(GONE, TOMBSTONE, 7)
        await catalog.close()


async def test_entities_of_before_were_created_by_the_first_version(
    path: Path,
) -> None:
    catalog = SqliteCatalog(path)
    await catalog.open()
    found = await catalog.changes_since(0)
    assert found is not None
    assert (found.version, found.created) == (1, [ORDERS])
    changed = replace(ORDERS, updated_at=3)
    await catalog.put(changed)
    found = await catalog.changes_since(1)
    assert found is not None
    assert (found.created, found.updated) == ([], [changed])
    await catalog.close()


async def test_a_copy_of_the_old_catalog_is_kept(path: Path) -> None:
    catalog = SqliteCatalog(path)
    await catalog.open()
    await catalog.close()
    copy = path.with_name("catalog.sqlite3.format-2")
    assert copy.stat().st_mode & 0o077 == 0
    with closing(sqlite3.connect(copy)) as db:
        assert db.execute("SELECT format_version FROM meta").fetchone() == (2,)
        assert db.execute("SELECT path FROM entity").fetchall() == [("Orders",)]
        assert db.execute("SELECT path FROM unfinished").fetchall() == [("gone",)]
    # It can be put back, and is migrated again.
    put_back(copy, path)
    assert await catalog.open() == [ORDERS]
    await catalog.close()


async def test_code_of_format_2_refuses_a_catalog_with_versions(path: Path) -> None:
    """It would change entities without a version."""
    catalog = SqliteCatalog(path)
    await catalog.open()
    await catalog.close()
    with closing(open_file(path, SECOND)) as db:
        with pytest.raises(StoreUnreadable, match="knows formats up to 2"):
            migrate(db, path, SECOND)


async def test_many_changes_leave_no_more_rows_than_are_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twinbus.store.sqlite_catalog.REMOVALS_KEPT", 5)
    catalog = SqliteCatalog(path)
    await catalog.open()
    for number in range(100):
        made = replace(GONE, path=f"queue-{number}")
        await catalog.put(made)
        await catalog.put(replace(ORDERS, updated_at=number))
        await catalog.remove(unfinished(made, TOMBSTONE, 7))
    await catalog.close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM removed_entity").fetchone() == (5,)
        assert db.execute("SELECT count(*) FROM entity").fetchone() == (1,)
        assert db.execute("SELECT version FROM meta").fetchone() == (301,)


# --- brokers that run an older version ------------------------------------------------


def announce(path: Path, process: ProcessIdentity, format_version: int) -> None:
    """As a broker of that version would have done it."""
    description = {"process": process.to_json(), FORMATS: {CATALOG: format_version}}
    with closing(sqlite3.connect(path)) as db, db:
        row = (b"b" * 16, "", 1, json.dumps(description))
        db.execute("INSERT OR REPLACE INTO broker VALUES (?, ?, ?, ?)", row)


async def test_catalog_is_not_taken_from_a_broker_that_could_not_read_it(
    path: Path,
) -> None:
    announce(path, this_process(), FORMAT.version - 1)
    with pytest.raises(StoreInUse, match="could not read format"):
        await SqliteCatalog(path).open()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT format_version FROM meta").fetchone() == (2,)


async def test_catalog_is_migrated_when_all_brokers_can_read_it(path: Path) -> None:
    announce(path, this_process(), FORMAT.version)
    catalog = SqliteCatalog(path)
    assert await catalog.open() == [ORDERS]
    await catalog.close()


async def test_broker_that_has_ended_keeps_nobody_from_migrating(path: Path) -> None:
    gone = replace(this_process(), pid=DEAD_PID)
    announce(path, gone, FORMAT.version - 1)
    catalog = SqliteCatalog(path)
    assert await catalog.open() == [ORDERS]
    await catalog.close()
