"""Taking, renewing and giving back reader leases; durable before the answer."""

from collections.abc import Sequence

from twinbus.broker import reader_lease
from twinbus.broker.changes import ReaderLease
from twinbus.errors import ReaderLeaseLost
from twinbus.operations.bulk.requests import LeaseGrant
from twinbus.operations.bulk.source import Source


async def lease(
    reader: str, duration_ms: int, wanted: Sequence[tuple[Source, str | None]]
) -> list[LeaseGrant]:
    """Renew those with an epoch, take the others: all of them or none.

    Raises ReaderLeaseHeld, ReaderLeaseLost, EntityDisabled, NotAllowed.
    """
    for source, epoch in wanted:
        source.check_may_read()
        if epoch is None:
            reader_lease.check_free(source.fragment, reader, source.now())
        else:
            source.lease(reader, epoch)
    grants = [
        _grant(source, _lease(source, reader, epoch, duration_ms))
        for source, epoch in wanted
    ]
    for owner in {source.owner for source, _ in wanted}:
        await owner.durable()
    return grants


def _lease(
    source: Source, reader: str, epoch: str | None, duration_ms: int
) -> ReaderLease:
    fragment, owner, now = source.fragment, source.owner, source.now()
    if epoch is None:
        granted = reader_lease.take(fragment, reader, duration_ms, now, owner.changes)
    else:
        held = source.lease(reader, epoch)
        granted = reader_lease.renew(fragment, held, duration_ms, now, owner.changes)
    owner.watch(fragment)
    return granted


def _grant(source: Source, granted: ReaderLease) -> LeaseGrant:
    return LeaseGrant(
        path=source.path,
        epoch=str(granted.epoch),
        expires_in_ms=granted.expires_at - source.now(),
    )


async def release(reader: str, held: Sequence[tuple[Source, str]]) -> int:
    """Give back what is still held; what is not is no matter."""
    released = 0
    for source, epoch in held:
        try:
            found = source.lease(reader, epoch)
        except ReaderLeaseLost:
            continue
        reader_lease.give_back(source.fragment, found, source.owner.changes)
        released += 1
    for owner in {source.owner for source, _ in held}:
        await owner.durable()
    return released
