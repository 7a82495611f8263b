"""Opening a store: take its lease, then learn what it holds."""

from twinbus.store.base import Opened, Store, StoreMissing, StoreUnreadable
from twinbus.store.lease import SchemaLease
from twinbus.store.sqlite import SqliteStore


def refuse_missing(store: Store) -> None:
    """For a store that was there before. Raises StoreMissing: opening it would make an
    empty one, in the folder where its disk is not mounted. On a server that is found
    out later."""
    if isinstance(store.lease, SchemaLease):
        store.lease.may_make = False
    if isinstance(store, SqliteStore) and not store.path.exists():
        raise StoreMissing(
            f"{store.location} is missing, and the catalog knows a store there. Is its "
            "disk mounted? Mount it, or put the file back."
        )


def another_store(store: Store, found: bytes, expected: bytes) -> StoreUnreadable:
    """The error for a store that is not the one which was there."""
    return StoreUnreadable(
        f"{store.location} is another store than the one that the catalog knows there: "
        f"{found.hex()} and not {expected.hex()}. Put the right one back."
    )


async def open_store(store: Store, owner: str, now: int) -> Opened:
    """Become the owner of a store. Raises as `StoreLease.take` does; then the lease is
    not held."""
    await store.lease.take(owner, now)
    try:
        return await store.load()
    except BaseException:
        await store.lease.give_back()
        raise
