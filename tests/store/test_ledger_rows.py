"""The range ledger stays small: restores in order leave one range."""

from twinbus.broker.changes import ChangeSet, LedgerRange
from twinbus.store.memory import MemoryDisk, MemoryStore
from twinbus.store.opening import open_store
from twinbus.store.sqlite import SqliteStore

from .places import SqlitePlace

GENERATION = b"g"
COMMITS = 40
PER_COMMIT = 250


def restored(number: int) -> LedgerRange:
    return LedgerRange(source="s", generation=GENERATION, first=number, last=number)


async def restore_in_order(store: MemoryStore | SqliteStore) -> None:
    """Ten thousand messages; each commit has the upper half of its own first, as two
    syphons would that share a queue."""
    opened = await open_store(store, "test", 1)
    for commit in range(COMMITS):
        changes = ChangeSet()
        first = 1 + commit * PER_COMMIT
        half = PER_COMMIT // 2
        for number in (*range(half, PER_COMMIT), *range(half)):
            changes.add_restored(restored(first + number))
        assert len(changes.ledger_ranges) == 2
        changes.seal(opened.epoch, commit + 1, 1)
        await store.commit(changes)
    known = await store.restored("s", GENERATION, [0, 1, 10_000, 10_001])
    assert known == {1, 10_000}


async def test_restores_in_order_are_one_range_in_memory() -> None:
    disk = MemoryDisk()
    await restore_in_order(MemoryStore(disk))
    assert disk.ranges == {("s", GENERATION): [(1, COMMITS * PER_COMMIT)]}


async def test_restores_in_order_are_one_row_on_disk(sqlite_place: SqlitePlace) -> None:
    store = sqlite_place.store()
    await restore_in_order(store)
    rows = store._db.execute("SELECT first, last FROM ledger_range").fetchall()
    assert rows == [(1, COMMITS * PER_COMMIT)]
    await store.close()
