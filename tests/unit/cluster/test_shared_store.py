"""A store in a file is for the brokers that have the file."""

from twinbus.cluster.terms import BEAT_MS, TERM_MS
from twinbus.store.sqlite import SqliteStore

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
