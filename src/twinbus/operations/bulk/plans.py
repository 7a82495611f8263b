"""Planning: the outlines of messages are read in portions, and the loop has its turns.

Under a lease nothing of what is looked at may expire before it is known to be planned:
meanwhile all of it counts as planned, and if nothing comes of the plan, what was
planned before. A reader that asks again, because it got no answer, means the plan that
it asked for last: an earlier one that is still being made must not come out after it.
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
from twinbus.operations.bulk.reading import ONLY_FRAGMENT, held_lease
from twinbus.operations.bulk.requests import PlanLimits, PlannedFragment, PlannedSplit
from twinbus.operations.entity_handle import EntityHandle

_PORTION: Final = 1_000
"""Outlines read at once: a few milliseconds."""

_HELD: Final = 100_000
"""Outlines of all entities together: some ten megabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Where to begin in a handle, and through which number it may go."""

    handle: EntityHandle
    first: int
    last: int
    epoch: str | None


class _Hold(NamedTuple):
    """What a fragment has counted when all of it was held for a plan."""

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
    for owner in {part.handle.owner for part in wanted if part.epoch is not None}:
        await owner.durable()
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


async def first_since(handle: EntityHandle, instant: int) -> int:
    """The number of the first active message that was enqueued at an instant or later;
    what the next message gets if there is none. Times rise with numbers (D6)."""
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
        # A thousand entities take their time.
        await asyncio.sleep(0)
    return low


def _lease(reader: str, part: Wanted) -> ReaderLease | None:
    """None where nothing is to be held. Raises ReaderLeaseLost."""
    return None if part.epoch is None else held_lease(part.handle, reader, part.epoch)


def _hold(reader: str, wanted: Sequence[Wanted], throughs: Sequence[int]) -> None:
    """All of them or none. Raises ReaderLeaseLost."""
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
    """As far as the leases are still held, and nobody has planned since."""
    for part, old, hold in zip(wanted, before, holds, strict=True):
        with suppress(ReaderLeaseLost):
            lease = _lease(reader, part)
            if lease is not None and old is not None and _is_last(part, hold):
                _note(part, lease, old.planned_from, old.planned_through)


def _note(part: Wanted, lease: ReaderLease, first: int, through: int) -> None:
    fragment, changes = part.handle.fragment, part.handle.owner.changes
    reader_lease.note_plan(fragment, lease, first, through, changes)


def _begun(part: Wanted) -> _Hold:
    """A plan is begun, and those that are under way are not the last any more."""
    fragment = part.handle.fragment
    if part.epoch is not None:
        fragment.plan_count += 1
    return _Hold(fragment.restore_count, fragment.plan_count)


def _is_last(part: Wanted, hold: _Hold) -> bool:
    return part.handle.fragment.plan_count == hold.plan_count


def _check_held(part: Wanted, hold: _Hold) -> None:
    """A commit that failed has voided the hold, and another plan has replaced it:
    something may have gone since. Raises ServerBusy."""
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
    """The instant before which all that was enqueued is durable when the first handle
    is read. Later messages come in while the others are read. A clock that was set
    back has left fragments ahead of it: they go by their own."""
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
    """At most so many messages are there to be planned: what lies before them, or
    behind, earns an entity no larger share."""
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
        # What expired, or was deleted, before it counted as planned.
        staying = found.without(set(handle.owner.changes.active_removed))
    made.supply(index, staying, len(found) < portion)


def _planned(handle: EntityHandle, planned: PlannedRange) -> PlannedFragment:
    return PlannedFragment(
        path=handle.path,
        index=ONLY_FRAGMENT,
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
