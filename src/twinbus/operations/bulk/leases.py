"""Takes, renews and releases reader leases; durable before the answer."""

from collections.abc import Sequence

from twinbus.auth.claims import Claim
from twinbus.broker import reader_lease
from twinbus.errors import ReaderLeaseLost
from twinbus.operations.bulk.reading import held_lease
from twinbus.operations.bulk.requests import LeaseGrant
from twinbus.operations.entity_handle import EntityHandle


async def lease(
    reader: str, duration_ms: int, wanted: Sequence[tuple[EntityHandle, str | None]]
) -> list[LeaseGrant]:
    """Renew leases with an epoch, and take the others: all of them or none.

    Raises ReaderLeaseHeld, ReaderLeaseLost, EntityDisabled, NotAllowed.
    """
    for handle, epoch in wanted:
        handle.require(Claim.LISTEN)
        handle.check_may_receive()
        if epoch is None:
            reader_lease.check_free(handle.fragment, reader, handle.now())
        else:
            held_lease(handle, reader, epoch)
    grants = [_lease(handle, reader, epoch, duration_ms) for handle, epoch in wanted]
    for owner in {handle.owner for handle, _ in wanted}:
        await owner.durable()
    return grants


def _lease(
    handle: EntityHandle, reader: str, epoch: str | None, duration_ms: int
) -> LeaseGrant:
    fragment, owner, now = handle.fragment, handle.owner, handle.now()
    if epoch is None:
        granted = reader_lease.take(fragment, reader, duration_ms, now, owner.changes)
    else:
        held = held_lease(handle, reader, epoch)
        granted = reader_lease.renew(fragment, held, duration_ms, now, owner.changes)
    owner.watch(fragment)
    return LeaseGrant(
        path=handle.path,
        epoch=str(granted.epoch),
        expires_in_ms=granted.expires_at - now,
    )


async def release(reader: str, held: Sequence[tuple[EntityHandle, str]]) -> int:
    """Release the leases that are still held. Returns their number."""
    released = 0
    for handle, epoch in held:
        handle.require(Claim.LISTEN)
        try:
            found = held_lease(handle, reader, epoch)
        except ReaderLeaseLost:
            continue
        reader_lease.give_back(handle.fragment, found, handle.owner.changes)
        released += 1
    for owner in {handle.owner for handle, _ in held}:
        await owner.durable()
    return released
