"""Takes, renews and releases reader leases; durable before the answer.

A lease covers all fragments of its entity, with one epoch, or none of them. It can be
renewed while a store is away: its fragments deliver nothing, and when the store is back
their leases have their full duration.
"""

from collections.abc import Sequence
from contextlib import suppress
from itertools import chain

from twinbus.auth.claims import Claim
from twinbus.broker import reader_lease
from twinbus.errors import ReaderLeaseLost, ServiceBusError
from twinbus.operations.bulk.reading import held_lease
from twinbus.operations.bulk.requests import LeaseGrant
from twinbus.operations.entity_handle import EntityHandle
from twinbus.operations.fragment_handle import FragmentHandle
from twinbus.operations.several_stores import durable

_Wanted = Sequence[tuple[EntityHandle, str | None]]


async def lease(reader: str, duration_ms: int, wanted: _Wanted) -> list[LeaseGrant]:
    """Renew leases with an epoch, and take the others: all of them or none.

    Raises ReaderLeaseHeld, ReaderLeaseLost, EntityDisabled, NotAllowed,
    FragmentUnavailable.
    """
    for handle, epoch in wanted:
        handle.require(Claim.LISTEN)
        handle.check_may_receive()
        for part in _parts(handle, epoch):
            if epoch is None:
                reader_lease.check_free(part.fragment, reader, handle.now())
            else:
                held_lease(part, reader, epoch)
    grants = [_lease(handle, reader, epoch, duration_ms) for handle, epoch in wanted]
    try:
        await durable(part for wish in wanted for part in _parts(*wish))
    except ServiceBusError:
        _give_up(reader, wanted, grants)
        raise
    return grants


def _lease(
    handle: EntityHandle, reader: str, epoch: str | None, duration_ms: int
) -> LeaseGrant:
    """The lease of one entity, on all its fragments."""
    now, parts = handle.now(), _parts(handle, epoch)
    next_epoch = max(reader_lease.next_epoch(part.fragment, now) for part in parts)
    for part in parts:
        fragment, changes = part.fragment, part.owner.changes
        if epoch is None:
            granted = reader_lease.take(
                fragment, reader, duration_ms, now, changes, next_epoch
            )
        else:
            held = held_lease(part, reader, epoch)
            granted = reader_lease.renew(fragment, held, duration_ms, now, changes)
        part.owner.watch(fragment)
    return LeaseGrant(
        path=handle.path,
        epoch=str(granted.epoch),
        expires_in_ms=granted.expires_at - now,
    )


def _parts(handle: EntityHandle, epoch: str | None) -> list[FragmentHandle]:
    """The fragments to lease: all, or for a renewal those whose stores are there.
    Raises FragmentUnavailable if one is missing, or all are."""
    if epoch is not None:
        parts = [part for part in handle.known_parts() if part.owner.is_serving]
        if parts:
            return parts
    return handle.parts()


def _give_up(reader: str, wanted: _Wanted, grants: Sequence[LeaseGrant]) -> None:
    """A store could not commit: give leases that were taken back to the others. The
    caller knows none of them."""
    for (handle, before), grant in zip(wanted, grants, strict=True):
        if before is None:
            _release(handle, reader, grant.epoch)


async def release(reader: str, held: Sequence[tuple[EntityHandle, str]]) -> int:
    """Release the leases that are still held. Returns their number."""
    released: list[list[FragmentHandle]] = []
    for handle, epoch in held:
        handle.require(Claim.LISTEN)
        released.append(_release(handle, reader, epoch))
    await durable(chain.from_iterable(released))
    return sum(bool(parts) for parts in released)


def _release(handle: EntityHandle, reader: str, epoch: str) -> list[FragmentHandle]:
    """The fragments that had the lease. Where a store is away, it ends by itself."""
    released: list[FragmentHandle] = []
    for part in handle.known_parts():
        if not part.owner.is_serving:
            continue
        with suppress(ReaderLeaseLost):
            found = held_lease(part, reader, epoch)
            reader_lease.give_back(part.fragment, found, part.owner.changes)
            released.append(part)
    return released
