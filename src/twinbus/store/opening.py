"""Opening a store: take its lease, then learn what it holds."""

from twinbus.store.base import Opened, Store


async def open_store(store: Store, owner: str, now: int) -> Opened:
    """Become the owner of a store. Raises as `StoreLease.take` does; then the lease is
    not held."""
    await store.lease.take(owner, now)
    try:
        return await store.load()
    except BaseException:
        await store.lease.give_back()
        raise
