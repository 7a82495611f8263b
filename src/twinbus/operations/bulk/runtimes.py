"""Reads the bounds and counts of entities."""

from twinbus.auth.claims import Claim
from twinbus.broker.changes import ReaderLease
from twinbus.broker.row_id import SEQUENCE_MASK, sequence_of
from twinbus.operations.bulk.reading import generation_of
from twinbus.operations.bulk.requests import EntityRuntime, FragmentRuntime, LeaseInfo
from twinbus.operations.entity_handle import EntityHandle
from twinbus.operations.fragment_handle import FragmentHandle


async def runtime_of(handle: EntityHandle) -> EntityRuntime:
    """Raises FragmentUnavailable."""
    handle.require(Claim.LISTEN)
    is_partitioned = handle.entity.is_partitioned
    return EntityRuntime(
        path=handle.path,
        generation=generation_of(handle),
        created_at=handle.entity.created_at,
        requires_session=handle.settings.requires_session,
        fragments=[await _runtime(part, is_partitioned) for part in handle.parts()],
    )


async def _runtime(part: FragmentHandle, is_partitioned: bool) -> FragmentRuntime:
    fragment, owner = part.fragment, part.owner
    # Read before the wait: if a later commit fails, its numbers are assigned again, and
    # a reader that began after them would miss messages.
    following = fragment.next_sequence
    await part.settle_down()
    async with owner.reading:
        found = await owner.store.outlines(fragment.number, 0, SEQUENCE_MASK, 1)
    first = sequence_of(found.row_ids[0]) if len(found) else None
    following = min(following, fragment.next_sequence)
    if first is not None:
        following = max(following, first + 1)
    return FragmentRuntime(
        index=fragment.index,
        first=None if first is None else part.visible(first),
        first_enqueued_at=found.enqueued_at[0] if len(found) else None,
        next=part.visible(following),
        last_enqueued_at=fragment.last_enqueued_at or None,
        active_count=fragment.active_count,
        deferred_count=fragment.deferred_count,
        scheduled_count=fragment.scheduled_count,
        size_bytes=fragment.size_bytes,
        lease=_lease_info(fragment.lease, part.now()),
        store=owner.store_uuid.hex() if is_partitioned else None,
    )


def _lease_info(lease: ReaderLease | None, now: int) -> LeaseInfo | None:
    if lease is None or lease.expires_at <= now:
        return None
    return LeaseInfo(
        reader=lease.reader,
        epoch=str(lease.epoch),
        expires_in_ms=lease.expires_at - now,
    )
