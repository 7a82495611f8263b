"""Planning: reads the outlines of messages in portions, so that other tasks can run.

Under a lease no message may expire while it is being planned. So all messages from the
start on count as planned meanwhile; if planning fails, the previous plan is restored. A
reader that got no answer asks again, and then only its last request counts: an earlier
plan that is still being made must not replace it.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from twinbus.auth.claims import Claim
from twinbus.broker import reader_lease
from twinbus.broker.changes import ReaderLease
from twinbus.broker.planning import AlignedPlan, FairPlan, Plan, PlannedRange
from twinbus.broker.row_id import SEQUENCE_MASK, sequence_of
from twinbus.errors import ReaderLeaseLost, ServerBusy
from twinbus.limits import BULK_SPLITS
from twinbus.operations.bulk.reading import held_lease
from twinbus.operations.bulk.requests import PlanLimits, PlannedFragment, PlannedSplit
from twinbus.operations.fragment_handle import FragmentHandle
from twinbus.operations.several_stores import durable

_PORTION: Final = 1_000
"""Outlines in one read: takes a few milliseconds."""

_HELD: Final = 100_000
"""Outlines of all fragments together: about ten megabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A fragment to plan, and its own first and last sequence number."""

    handle: FragmentHandle
    first: int
    last: int
    epoch: str | None


class _Hold(NamedTuple):
    """Counters of a fragment at the time when it was held for a plan."""

    restore_count: int
    plan_count: int


async def plan(
    reader: str, wanted: Sequence[Wanted], limits: PlanLimits
) -> list[PlannedFragment]:
    """Raises ReaderLeaseLost, MessagingEntityNotFound, ServerBusy."""
    for part in wanted:
        part.handle.require(Claim.LISTEN)
    horizon = _horizon(wanted)
    for part in wanted:
        await part.handle.settle_down()
    before = [_lease(reader, part) for part in wanted]
    _hold(reader, wanted, [SEQUENCE_MASK for _ in wanted])
    holds = [_begun(part) for part in wanted]
    try:
        made = await _made(_empty_plan(wanted, limits, horizon), wanted)
        for part, hold in zip(wanted, holds, strict=True):
            _check_held(part, hold)
        _hold(reader, wanted, [planned.end - 1 for planned in made.ranges])
    except BaseException:
        _restore(reader, wanted, before, holds)
        raise
    await durable(part.handle for part in wanted if part.epoch is not None)
    return [
        _planned(part.handle, planned)
        for part, planned in zip(wanted, made.ranges, strict=True)
    ]


async def _made(made: Plan, wanted: Sequence[Wanted]) -> Plan:
    portion = min(_PORTION, _HELD // max(1, len(wanted)))
    while not made.is_done():
        for index in made.wanted():
            await _supply(made, index, wanted[index], portion)
            await asyncio.sleep(0)
        made.advance(_PORTION)
        await asyncio.sleep(0)
    return made


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


def _hold(reader: str, wanted: Sequence[Wanted], throughs: Sequence[int]) -> None:
    """Note all plans at their leases, or none. Raises ReaderLeaseLost."""
    leases = [_lease(reader, part) for part in wanted]
    for part, lease, through in zip(wanted, leases, throughs, strict=True):
        if lease is not None:
            _note(part, lease, part.first, through)


def _restore(
    reader: str,
    wanted: Sequence[Wanted],
    before: Sequence[ReaderLease | None],
    holds: Sequence[_Hold],
) -> None:
    """Restore the previous plans of leases that are still held, if there is no newer
    plan."""
    for part, old, hold in zip(wanted, before, holds, strict=True):
        with suppress(ReaderLeaseLost):
            lease = _lease(reader, part)
            if lease is not None and old is not None and _is_last(part, hold):
                _note(part, lease, old.planned_from, old.planned_through)


def _note(part: Wanted, lease: ReaderLease, first: int, through: int) -> None:
    fragment, changes = part.handle.fragment, part.handle.owner.changes
    reader_lease.note_plan(fragment, lease, first, through, changes)


def _begun(part: Wanted) -> _Hold:
    """Begin a plan. From now on earlier ones that are under way fail."""
    fragment = part.handle.fragment
    if part.epoch is not None:
        fragment.plan_count += 1
    return _Hold(fragment.restore_count, fragment.plan_count)


def _is_last(part: Wanted, hold: _Hold) -> bool:
    return part.handle.fragment.plan_count == hold.plan_count


def _check_held(part: Wanted, hold: _Hold) -> None:
    """Check that neither a failed commit nor another plan has ended the hold: messages
    may have gone since. Raises ServerBusy."""
    if part.epoch is None:
        return
    path = part.handle.path
    if not _is_last(part, hold):
        raise ServerBusy(f"'{path}' was planned anew meanwhile. Plan again.")
    if part.handle.fragment.restore_count != hold.restore_count:
        raise ServerBusy(
            f"The message store failed while '{path}' was planned. Plan again."
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


def _empty_plan(wanted: Sequence[Wanted], limits: PlanLimits, horizon: int) -> Plan:
    firsts = [part.first for part in wanted]
    backlogs = [_backlog(part) for part in wanted]
    reach = min(limits.max_messages, sum(backlogs))
    split_messages = max(limits.split_messages, reach // BULK_SPLITS)
    if limits.is_aligned:
        return AlignedPlan(
            firsts,
            limits.max_messages,
            limits.max_bytes,
            split_messages,
            horizon,
        )
    return FairPlan(
        firsts,
        backlogs,
        limits.max_messages,
        limits.max_bytes,
        split_messages,
    )


def _backlog(part: Wanted) -> int:
    """Upper bound of the messages to plan. Messages outside the range do not count,
    so that they do not enlarge the entity's share."""
    fragment = part.handle.fragment
    last = min(part.last, fragment.next_sequence - 1)
    return max(0, min(fragment.active_count, last - part.first + 1))


async def _supply(made: Plan, index: int, part: Wanted, portion: int) -> None:
    handle, first = part.handle, made.next_of(index)
    handle.fragment.check_exists()
    async with handle.owner.reading:
        found = await handle.owner.store.outlines(
            handle.fragment.number, first, part.last, portion
        )
        # Without those that expired or were deleted before they counted as planned.
        staying = found.without(set(handle.owner.changes.active_removed))
    made.supply(index, staying, len(found) < portion)


def _planned(handle: FragmentHandle, planned: PlannedRange) -> PlannedFragment:
    return PlannedFragment(
        path=handle.path,
        index=handle.index,
        first=handle.visible(planned.first),
        end=handle.visible(planned.end),
        splits=[
            PlannedSplit(
                first=handle.visible(split.first),
                end=handle.visible(split.end),
                message_count=split.message_count,
                size_bytes=split.size_bytes,
            )
            for split in planned.splits
        ],
    )
