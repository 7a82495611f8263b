"""Backups of files of every format, and processes that are killed while they make or
use one."""

import asyncio
import json
import os
import secrets
import signal
import sqlite3
import warnings
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import psycopg
import pytest

from bench.postgres_server import PostgresServer
from twinbus.backup.making import make_backup, store_sources
from twinbus.backup.manifest import BackupManifest, read_manifest, verify_files
from twinbus.backup.new_identity import EPOCHS_SKIPPED, SEQUENCES_SKIPPED
from twinbus.backup.restoring import PlaceTaken, carry_out, plan_restore
from twinbus.broker.changes import ChangeSet, FragmentRecord
from twinbus.config.config import Config, ConfigError, load_config
from twinbus.process.data_folder import DataFolder
from twinbus.store.base import Store
from twinbus.store.catalog import EntityRecord
from twinbus.store.catalog_move import MovableCatalog
from twinbus.store.checks.owner import message
from twinbus.store.opening import open_store
from twinbus.store.sqlite_catalog import FORMAT as CATALOG_FORMAT
from twinbus.store.sqlite_catalog import SqliteCatalog
from twinbus.store.sqlite_file import open_file
from twinbus.store.sqlite_format import FORMAT
from twinbus.store.urls import open_store_url

FRAGMENT: Final = 5
GENERATION: Final = bytes(range(16))
NOW: Final = 1_700_000_000_000
COMMITS: Final = 6
RAW: Final = b"what the sender wrote"


def quiet(text: str) -> None:
    """Nobody is told."""


def config_of(folder: Path, **flags: object) -> Config:
    return load_config(None, {}, {"data": str(folder), **flags})


# --- formats --------------------------------------------------------------------------


def make_older(folder: Path, store_version: int, catalog_version: int) -> None:
    """A bus with one message, as code of these formats would have left it."""
    folder.mkdir()
    store, catalog = folder / "messages.sqlite3", folder / "catalog.sqlite3"
    kind = replace(FORMAT, version=store_version, tables=frozenset())
    with closing(open_file(store, kind)) as db:
        fragment = (1, GENERATION, 0, 0, 9, NOW, 1, 0, 0, len(RAW))
        db.execute(f"INSERT INTO fragment VALUES ({_marks(fragment)})", fragment)
        row = (1 - 32768 << 48 | 1, NOW, 0, None, 0, 7, None, None, RAW)
        db.execute(
            "INSERT INTO message (row_id, enqueued_at, ttl_ms, expiry_bucket,"
            " delivery_count, layout, annex, body_id, raw)"
            f" VALUES ({_marks(row)})",
            row,
        )
        (uuid,) = db.execute("SELECT store_uuid FROM meta").fetchone()
    kind = replace(CATALOG_FORMAT, version=catalog_version, tables=frozenset())
    with closing(open_file(catalog, kind)) as db:
        entity = (
            *("site", "orders", "site", "orders", "queue", GENERATION),
            *("{}", NOW, NOW, json.dumps([uuid.hex()])),
        )
        db.execute(
            "INSERT INTO entity (namespace_key, path_key, namespace, path, kind,"
            " generation, description, created_at, updated_at, placement)"
            f" VALUES ({_marks(entity)})",
            entity,
        )


def _marks(row: tuple[object, ...]) -> str:
    return ", ".join("?" * len(row))


@pytest.mark.parametrize(
    ("store_version", "catalog_version"),
    [(1, 1), (2, 2), (3, 3), (4, 4), (4, 5), (4, 6)],
)
async def test_files_of_every_format_are_backed_up_and_restored(
    tmp_path: Path, store_version: int, catalog_version: int
) -> None:
    make_older(tmp_path / "data", store_version, catalog_version)
    before = (tmp_path / "data" / "messages.sqlite3").read_bytes()
    made = await make_backup(config_of(tmp_path / "data"), tmp_path / "backup", quiet)
    (store,) = made.stores
    assert (store.format_version, store.message_count) == (store_version, 1)
    # Nothing of the bus was migrated.
    assert (tmp_path / "data" / "messages.sqlite3").read_bytes() == before

    there = config_of(tmp_path / "restored")
    await carry_out(await plan_restore(tmp_path / "backup", there, quiet), quiet)
    await check_restored(there, made)


async def check_restored(config: Config, made: BackupManifest) -> None:
    catalog = SqliteCatalog(config.data / "catalog.sqlite3")
    (entity,) = await catalog.open()
    await catalog.close()
    assert (entity.path, entity.generation) == ("orders", GENERATION)
    restored = open_store_url(f"sqlite:///{config.data / 'messages.sqlite3'}")
    opened = await open_store(restored, "test", NOW)
    try:
        (found,) = await restored.read_active(1, 0, 10, 1 << 20)
        (record,) = opened.fragments
    finally:
        await restored.close()
    assert bytes(found.raw) == RAW
    assert record.next_sequence == 9 + SEQUENCES_SKIPPED
    assert opened.epoch == made.stores[0].epoch + EPOCHS_SKIPPED + 1
    assert entity.placement == (opened.store_uuid,)
    assert opened.store_uuid.hex() != made.stores[0].uuid


# --- kills ----------------------------------------------------------------------------


def killed_at_step(step: int, work: Callable[[Callable[[str], None]], None]) -> bool:
    """Do the work in another process, which is killed when it tells its progress for
    the so-manieth time. False if it came to its end before."""
    with warnings.catch_warnings():
        # The child runs nothing that other threads could have held.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        told = 0

        def progress(text: str) -> None:
            nonlocal told
            told += 1
            if told == step:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            work(progress)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


class SmallBus:
    """A bus that is not running, with sixty messages of one queue."""

    def __init__(self, folder: Path, server: PostgresServer | None) -> None:
        self.folder = folder
        self.server = server
        self.schema = f"k_{secrets.token_hex(8)}"
        self.config = self._config("data")
        self.other = self._config("restored")

    def _config(self, name: str) -> Config:
        folder = self.folder / name
        if self.server is None:
            return config_of(folder)
        url = self.server.url(f"{self.schema}_{name}")
        catalog = self.server.url(f"{self.schema}_{name}_catalog")
        return config_of(folder, store=[url], catalog=catalog)

    async def fill(self) -> None:
        store, catalog = parts_of(self.config)
        opened = await open_store(store, "test", NOW)
        for batch in range(1, COMMITS + 1):
            await store.commit(_added(batch, opened.epoch))
        await store.close()
        entity = EntityRecord(
            namespace="site",
            path="orders",
            kind="queue",
            generation=GENERATION,
            description={},
            created_at=NOW,
            updated_at=NOW,
            placement=(opened.store_uuid,),
        )
        await catalog.open()
        await catalog.put(entity)
        await catalog.close()


def _added(batch: int, epoch: int) -> ChangeSet:
    """A commit that adds ten messages."""
    changes = ChangeSet()
    numbers = range(10 * batch - 9, 10 * batch + 1)
    changes.active_added += [message(FRAGMENT, n, raw=RAW) for n in numbers]
    changes.records.append(
        FragmentRecord(
            number=FRAGMENT,
            generation=GENERATION,
            index=0,
            sub_queue=0,
            next_sequence=10 * batch + 1,
            active_count=10 * batch,
            size_bytes=10 * batch * len(RAW),
        )
    )
    changes.seal(epoch, batch, NOW)
    return changes


def parts_of(config: Config) -> tuple[Store, MovableCatalog]:
    folder = DataFolder(config)
    (store,) = folder.stores()
    return store, folder.kept_catalog()


async def contents_of(config: Config) -> tuple[list[bytes], list[str]]:
    """Messages and entities."""
    store, catalog = parts_of(config)
    await open_store(store, "test", NOW)
    messages = await store.browse(FRAGMENT, 0, 1000, 1 << 30)
    await store.close()
    entities = await catalog.open()
    await catalog.close()
    return [bytes(one.raw) for one in messages], [one.path for one in entities]


@pytest.fixture(params=["file", "schema"])
def bus(request: pytest.FixtureRequest, tmp_path: Path) -> SmallBus:
    server = None
    if request.param == "schema":
        server = request.getfixturevalue("postgres_server")
    bus = SmallBus(tmp_path, server)
    asyncio.run(bus.fill())
    return bus


def restored(backup: Path, config: Config, progress: Callable[[str], None]) -> None:
    async def restore() -> None:
        await carry_out(await plan_restore(backup, config, quiet), progress)

    asyncio.run(restore())


def test_killed_backup_leaves_nothing_that_looks_like_one(bus: SmallBus) -> None:
    backup = bus.folder / "backup"

    def work(progress: Callable[[str], None]) -> None:
        asyncio.run(make_backup(bus.config, backup, progress))

    step = 1
    while killed_at_step(step, work):
        assert not backup.exists()
        step += 1
    # It told each step, and the last run came to its end over what was left.
    assert step > 3
    verify_files(backup, read_manifest(backup), quiet)
    assert not list(bus.folder.glob(".backup*"))


def test_killed_restore_is_run_again_and_no_bus_starts_before(bus: SmallBus) -> None:
    backup = bus.folder / "backup"
    asyncio.run(make_backup(bus.config, backup, quiet))
    expected = asyncio.run(contents_of(bus.config))
    assert len(expected[0]) > 40 and expected[1] == ["orders"]
    step = 1
    while killed_at_step(step, partial(restored, backup, bus.other)):
        with pytest.raises(ConfigError, match="has not ended"):
            DataFolder(bus.other).stores()
        step += 1
    assert step > 3
    assert asyncio.run(contents_of(bus.other)) == expected
    with pytest.raises(PlaceTaken):
        restored(backup, bus.other, quiet)


def test_failed_restore_leaves_nothing(bus: SmallBus) -> None:
    backup = bus.folder / "backup"
    asyncio.run(make_backup(bus.config, backup, quiet))

    def fail(text: str) -> None:
        if text.startswith("checking"):
            raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        restored(backup, bus.other, fail)
    assert not bus.other.data.exists()
    # Every place is free again.
    restored(backup, bus.other, quiet)


def test_another_restore_does_not_take_over(bus: SmallBus) -> None:
    one, two = bus.folder / "one", bus.folder / "two"
    for backup in (one, two):
        asyncio.run(make_backup(bus.config, backup, quiet))
    assert killed_at_step(2, partial(restored, one, bus.other))
    with pytest.raises(PlaceTaken, match="Another restore"):
        restored(two, bus.other, quiet)
    restored(one, bus.other, quiet)


# --- one moment -----------------------------------------------------------------------


def is_locked(bus: SmallBus) -> bool:
    """Nobody gets the lock that every commit needs."""
    if bus.server is not None:
        with psycopg.connect(bus.server.conninfo) as db:
            db.execute(f"SET search_path = {bus.schema}_data")
            try:
                db.execute("SELECT 1 FROM lease FOR UPDATE NOWAIT")
            except psycopg.errors.LockNotAvailable:
                return True
            return False
    file = bus.config.data / "messages.sqlite3"
    with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as db:
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        return False


async def test_a_copy_is_of_the_moment_in_which_commits_waited(bus: SmallBus) -> None:
    (source,) = store_sources(bus.config)
    store, _ = parts_of(bus.config)
    opened = await open_store(store, "test", NOW)
    try:
        await source.open()
        assert not is_locked(bus)
        assert await source.hold(asyncio.get_running_loop().time() + 10)
        assert is_locked(bus)
        await source.look()
        await source.let_go()
        assert not is_locked(bus)
        # What comes later is not in the copy, which is not made yet.
        await store.commit(_added(COMMITS + 1, opened.epoch))
        copied = await source.copy(bus.folder, "copy", quiet)
    finally:
        await source.close()
        await store.close()
    assert (copied.message_count, copied.batch) == (10 * COMMITS, COMMITS)


async def test_what_is_held_by_another_cannot_be_held(bus: SmallBus) -> None:
    (one,), (two,) = (store_sources(bus.config) for _ in range(2))
    try:
        for source in (one, two):
            await source.open()
        now = asyncio.get_running_loop().time
        assert await one.hold(now() + 10)
        assert not await two.hold(now() + 0.05)
        await one.let_go()
        assert await two.hold(now() + 10)
    finally:
        for source in (one, two):
            await source.close()
