"""Holds fragments while they are planned, and notes what was planned.

Under a lease no message may expire while it is being planned. So all messages from the
start on count as planned meanwhile; if planning fails, the previous plan is restored. A
reader that got no answer asks again, and then only its last request counts: an earlier
plan that is still being made must not replace it.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from twinbus.auth.claims import Claim
from twinbus.broker import reader_lease
from twinbus.broker.changes import ReaderLease
from twinbus.broker.row_id import SEQUENCE_MASK, sequence_of
from twinbus.errors import ReaderLeaseLost, ServerBusy
from twinbus.operations.bulk.reading import held_lease
from twinbus.operations.bulk.shares import (
    HeldFragment,
    HeldFragments,
    Hold,
    PlanNote,
    SomeOutlines,
)
from twinbus.operations.fragment_handle import FragmentHandle
from twinbus.operations.several_stores import durable


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A fragment to plan, and its own first and last sequence number."""

    handle: FragmentHandle
    first: int
    last: int
    epoch: str | None


async def hold(reader: str, wanted: Sequence[Wanted]) -> HeldFragments:
    """Hold all of them or none. Raises ReaderLeaseLost, MessagingEntityNotFound."""
    for part in wanted:
        part.handle.require(Claim.LISTEN)
    horizon = _horizon(wanted)
    for part in wanted:
        await part.handle.settle_down()
    leases = [_lease(reader, part) for part in wanted]
    for part, lease in zip(wanted, leases, strict=True):
        if lease is not None:
            # From now on earlier plans that are under way fail.
            part.handle.fragment.plan_count += 1
            _note(part.handle, lease, part.first, SEQUENCE_MASK)
    return HeldFragments(
        horizon=horizon,
        fragments=[
            HeldFragment(
                path=part.handle.path,
                first=part.first,
                last=part.last,
                backlog=_backlog(part),
                hold=_hold_of(part.handle),
                before=_plan_of(lease),
            )
            for part, lease in zip(wanted, leases, strict=True)
        ],
    )


async def note_plans(
    reader: str, planned: Sequence[tuple[FragmentHandle, PlanNote]]
) -> None:
    """Note what was planned in fragments that are held: all or none. Raises
    ReaderLeaseLost, ServerBusy."""
    leases: list[ReaderLease] = []
    for handle, note in planned:
        handle.require(Claim.LISTEN)
        _check_held(handle, note.hold)
        leases.append(held_lease(handle, reader, note.epoch))
    for (handle, note), lease in zip(planned, leases, strict=True):
        _note(handle, lease, note.first, note.through)
    await durable(handle for handle, _ in planned)


def restore_plans(
    reader: str, planned: Sequence[tuple[FragmentHandle, PlanNote]]
) -> None:
    """Note the previous plans at leases that are still held, if there is no newer
    plan."""
    for handle, note in planned:
        handle.require(Claim.LISTEN)
        with suppress(ReaderLeaseLost):
            lease = held_lease(handle, reader, note.epoch)
            if _is_last(handle, note.hold):
                _note(handle, lease, note.first, note.through)


async def read_outlines(
    handle: FragmentHandle, first: int, last: int, count: int
) -> SomeOutlines:
    """The next messages. Raises MessagingEntityNotFound."""
    handle.require(Claim.LISTEN)
    handle.fragment.check_exists()
    async with handle.owner.reading:
        found = await handle.owner.store.outlines(
            handle.fragment.number, first, last, count
        )
        # Without those that expired or were deleted before they counted as planned.
        staying = found.without(set(handle.owner.changes.active_removed))
    return SomeOutlines(outlines=staying, is_last=len(found) < count)


async def first_since(handle: FragmentHandle, instant: int) -> int:
    """The number of the first active message that was enqueued at an instant or later;
    the number of the next message if there is none. Enqueued times rise with numbers,
    so a binary search finds it."""
    handle.require(Claim.LISTEN)
    await handle.settle_down()
    fragment, store = handle.fragment, handle.owner.store
    low, high = 0, fragment.next_sequence
    while low < high:
        middle = (low + high) // 2
        async with handle.owner.reading:
            found = await store.outlines(fragment.number, middle, SEQUENCE_MASK, 1)
        if not len(found) or found.enqueued_at[0] >= instant:
            high = middle
        else:
            low = sequence_of(found.row_ids[0]) + 1
        # Let other tasks run: there may be a thousand entities.
        await asyncio.sleep(0)
    return low


def _lease(reader: str, part: Wanted) -> ReaderLease | None:
    """None if the plan is without a lease. Raises ReaderLeaseLost."""
    return None if part.epoch is None else held_lease(part.handle, reader, part.epoch)


def _plan_of(lease: ReaderLease | None) -> tuple[int, int] | None:
    return None if lease is None else (lease.planned_from, lease.planned_through)


def _note(handle: FragmentHandle, lease: ReaderLease, first: int, through: int) -> None:
    changes = handle.owner.changes
    reader_lease.note_plan(handle.fragment, lease, first, through, changes)


def _hold_of(handle: FragmentHandle) -> Hold:
    fragment = handle.fragment
    return Hold(
        store_epoch=handle.owner.epoch,
        restore_count=fragment.restore_count,
        plan_count=fragment.plan_count,
    )


def _is_last(handle: FragmentHandle, hold: Hold) -> bool:
    now = _hold_of(handle)
    return (now.store_epoch, now.plan_count) == (hold.store_epoch, hold.plan_count)


def _check_held(handle: FragmentHandle, hold: Hold) -> None:
    """Check that neither a failed commit, nor another plan, nor another owner of the
    store has ended the hold: messages may have gone since. Raises ServerBusy."""
    if handle.owner.epoch != hold.store_epoch:
        raise ServerBusy(
            f"The message store of '{handle.path}' got another owner while it was "
            "planned. Plan again."
        )
    if not _is_last(handle, hold):
        raise ServerBusy(f"'{handle.path}' was planned anew meanwhile. Plan again.")
    if handle.fragment.restore_count != hold.restore_count:
        raise ServerBusy(
            f"The message store failed while '{handle.path}' was planned. Plan again."
        )


def _horizon(wanted: Sequence[Wanted]) -> int:
    """All messages that were enqueued before this instant are durable when the first
    handle is read. Later ones may arrive while the others are read. If the clock was
    set back, a fragment may be ahead of it; then the fragment's own time is used."""
    horizon = 0
    for part in wanted:
        now, last = part.handle.now(), part.handle.fragment.last_enqueued_at
        horizon = max(horizon, now if last <= now else last + 1)
    return horizon


def _backlog(part: Wanted) -> int:
    """Upper bound of the messages to plan. Messages outside the range do not count,
    so that they do not enlarge the entity's share."""
    fragment = part.handle.fragment
    last = min(part.last, fragment.next_sequence - 1)
    return max(0, min(fragment.active_count, last - part.first + 1))
