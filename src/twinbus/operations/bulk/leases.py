"""Takes, renews and releases reader leases; durable before the answer.

A lease covers all fragments of its entity, with one epoch, or none of them. It can be
renewed while a store is away: its fragments deliver nothing, and when the store is back
their leases have their full duration.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

from twinbus.auth.claims import Claim
from twinbus.broker import reader_lease
from twinbus.errors import ReaderLeaseLost, ServiceBusError
from twinbus.operations.bulk.reading import held_lease
from twinbus.operations.bulk.requests import LeaseGrant
from twinbus.operations.bulk.shares import LeaseCheck
from twinbus.operations.entity_handle import EntityHandle
from twinbus.operations.fragment_handle import FragmentHandle
from twinbus.operations.several_stores import durable


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseWish:
    """A lease to take or, with an epoch, to renew."""

    handle: EntityHandle
    epoch: str | None
    # The epoch of a lease that is taken, or a later one.
    least_epoch: int = 0


async def lease(
    reader: str, duration_ms: int, wishes: Sequence[LeaseWish]
) -> list[LeaseGrant]:
    """Renew leases with an epoch, and take the others: all of them or none.

    Raises ReaderLeaseHeld, ReaderLeaseLost, EntityDisabled, NotAllowed,
    FragmentUnavailable.
    """
    checks = check_leases(reader, wishes)
    grants = [
        _lease(wish, max(check.next_epoch, wish.least_epoch), reader, duration_ms)
        for wish, check in zip(wishes, checks, strict=True)
    ]
    try:
        await durable(part for wish in wishes for part in _parts(wish))
    except ServiceBusError:
        _give_up(reader, wishes, grants)
        raise
    return grants


def check_leases(reader: str, wishes: Sequence[LeaseWish]) -> list[LeaseCheck]:
    """Whether all of them can be taken or renewed. Raises as `lease`."""
    return [_checked(reader, wish) for wish in wishes]


def _checked(reader: str, wish: LeaseWish) -> LeaseCheck:
    handle = wish.handle
    handle.require(Claim.LISTEN)
    handle.check_may_receive()
    now, parts = handle.now(), _parts(wish)
    for part in parts:
        if wish.epoch is None:
            reader_lease.check_free(part.fragment, reader, now)
        else:
            held_lease(part, reader, wish.epoch)
    lasts = [part.fragment.last_lease for part in parts]
    return LeaseCheck(
        next_epoch=max(reader_lease.next_epoch(part.fragment, now) for part in parts),
        is_own=any(last is not None and last.reader == reader for last in lasts),
    )


def _lease(
    wish: LeaseWish, next_epoch: int, reader: str, duration_ms: int
) -> LeaseGrant:
    """The lease of one entity, on all its fragments."""
    handle, now = wish.handle, wish.handle.now()
    for part in _parts(wish):
        fragment, changes = part.fragment, part.owner.changes
        if wish.epoch is None:
            granted = reader_lease.take(
                fragment, reader, duration_ms, now, changes, next_epoch
            )
        else:
            held = held_lease(part, reader, wish.epoch)
            granted = reader_lease.renew(fragment, held, duration_ms, now, changes)
        part.owner.watch(fragment)
    return LeaseGrant(
        path=handle.path,
        epoch=str(granted.epoch),
        expires_in_ms=granted.expires_at - now,
    )


def _parts(wish: LeaseWish) -> list[FragmentHandle]:
    """The fragments to lease: all, or for a renewal those whose stores are there.
    Raises FragmentUnavailable if one is missing, or all are."""
    handle = wish.handle
    if wish.epoch is not None:
        parts = [part for part in handle.known_parts() if part.owner.is_serving]
        if parts:
            return parts
    return handle.parts()


def _give_up(
    reader: str, wishes: Sequence[LeaseWish], grants: Sequence[LeaseGrant]
) -> None:
    """A store could not commit: give leases that were taken back to the others. The
    caller knows none of them."""
    for wish, grant in zip(wishes, grants, strict=True):
        if wish.epoch is None:
            _release(wish.handle, reader, grant.epoch)


async def release(reader: str, held: Sequence[tuple[EntityHandle, str]]) -> list[bool]:
    """Release the leases that are still held, and say which ones were."""
    released: list[list[FragmentHandle]] = []
    for handle, epoch in held:
        handle.require(Claim.LISTEN)
        released.append(_release(handle, reader, epoch))
    await durable(chain.from_iterable(released))
    return [bool(parts) for parts in released]


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
