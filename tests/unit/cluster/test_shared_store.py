"""A store in a file is for the brokers that have the file."""

from pathlib import Path

import pytest

from twinbus.cluster.terms import BEAT_MS, TERM_MS
from twinbus.store.base import StoreReadOnly
from twinbus.store.process_identity import this_process
from twinbus.store.sqlite import SqliteStore
from twinbus.store.sqlite_lease import SqliteLease
from twinbus.store.sqlite_lease_row import holder_of

from .world import ClusterWorld

SOON_MS = 5 * BEAT_MS


async def test_store_whose_file_is_not_here_is_not_in_reach(
    world: ClusterWorld,
) -> None:
    a = await world.join("a")
    shared, path = a.shared[0], world.paths[0]
    assert shared.is_in_reach(0)
    path.rename(world.folder / "elsewhere")
    assert not shared.is_in_reach(0)
    (world.folder / "elsewhere").rename(path)
    assert shared.is_in_reach(0)


async def test_another_store_at_its_place_is_not_in_reach(world: ClusterWorld) -> None:
    """As on a machine where the same path has a file of its own."""
    a = await world.join("a")
    shared, path = a.shared[0], world.paths[0]
    path.rename(world.folder / "elsewhere")
    other = SqliteStore(world.folder / "other.sqlite3")
    await other.lease.take("somebody", 0)
    await other.close()
    other.path.rename(path)
    assert not shared.is_in_reach(0)


async def test_broker_neither_takes_nor_waits_for_what_it_cannot_reach(
    world: ClusterWorld,
) -> None:
    missing, elsewhere = world.paths[0], world.folder / "elsewhere"
    missing.rename(elsewhere)
    a = await world.join("a")
    await world.until(a.broker.settled.is_set, SOON_MS)
    assert a.served() == set(world.paths[1:])
    assert not a.shared[0].owner.is_wanted
    await world.pass_time(2 * TERM_MS)
    assert not missing.exists(), "none was made in its place"
    elsewhere.rename(missing)
    await world.until(world.is_shared_equally, SOON_MS)


def _can_only_be_read(store: SqliteStore) -> None:
    """By whoever has opened it. Who opens it again finds its disk repaired."""
    store._file.db.execute("PRAGMA query_only = ON")


async def _give_back_unwritten(world: ClusterWorld) -> set[Path]:
    """A broker gives files back to which it cannot write."""
    a = await world.join("a")
    await world.until(world.is_shared_equally, SOON_MS)
    for shared in a.shared:
        store = shared.owner._store
        assert isinstance(store, SqliteStore)
        _can_only_be_read(store)
    await world.join("b")
    await world.until(lambda: len(a.served()) < len(world.paths), SOON_MS)
    return set(world.paths) - a.served()


async def test_store_that_could_not_be_given_back_is_taken_again(
    world: ClusterWorld,
) -> None:
    left = await _give_back_unwritten(world)
    # Their leases name the process of the broker, which runs.
    assert all(holder_of(path) == this_process() for path in left)
    await world.until(world.is_shared_equally, 2 * TERM_MS)


async def test_store_that_nobody_else_can_take_is_not_given_up(
    world: ClusterWorld,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def take(self: SqliteLease, owner: str, now: int) -> int:
        raise StoreReadOnly("its disk is not repaired yet")

    await _give_back_unwritten(world)
    with monkeypatch.context() as patched:
        patched.setattr(SqliteLease, "take", take)
        await world.pass_time(8 * TERM_MS)
    assert "is left to other brokers" not in caplog.text
    await world.until(world.is_shared_equally, TERM_MS)
