"""Makes a plan over fragments of several brokers.

Each broker holds its fragments, so that nothing expires meanwhile, and gives outlines
of their messages in portions, so that other tasks can run. When the plan is made, each
notes its part. If a broker cannot, the plan has failed, and all restore the one before.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from twinbus.broker.planning import AlignedPlan, FairPlan, Plan, PlannedRange
from twinbus.broker.row_id import SEQUENCE_BITS
from twinbus.errors import ServiceBusError
from twinbus.limits import BULK_SPLITS
from twinbus.operations.bulk.requests import PlanLimits, PlannedFragment, PlannedSplit
from twinbus.operations.bulk.shares import (
    BrokerShare,
    HeldFragment,
    HoldRequest,
    OutlinesRequest,
    PlanNote,
)
from twinbus.operations.caller import Caller

_PORTION: Final = 1_000
"""Outlines in one read: takes a few milliseconds."""

_HELD: Final = 100_000
"""Outlines of all fragments together: about ten megabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWish:
    """A fragment to plan, and the broker that has it."""

    share: BrokerShare
    request: HoldRequest


class PlanMaking:
    """One plan, while it is made."""

    def __init__(self, caller: Caller, reader: str, wishes: Sequence[PlanWish]) -> None:
        self._caller = caller
        self._reader = reader
        self._wishes = wishes
        # By position in `wishes`; those that are held.
        self._held: dict[int, HeldFragment] = {}

    async def plan(self, limits: PlanLimits) -> list[PlannedFragment]:
        """Raises ReaderLeaseLost, MessagingEntityNotFound, ServerBusy."""
        try:
            horizon = await self._hold()
            made = self._empty(limits, horizon)
            await self._fill(made)
            await self._note(made)
        except BaseException:
            await self._restore()
            raise
        return [
            _planned(self._held[at].path, wish.request.index, planned)
            for (at, wish), planned in zip(
                enumerate(self._wishes), made.ranges, strict=True
            )
        ]

    def _positions(self) -> dict[BrokerShare, list[int]]:
        """Of the fragments that each broker has."""
        positions: dict[BrokerShare, list[int]] = {}
        for at, wish in enumerate(self._wishes):
            positions.setdefault(wish.share, []).append(at)
        return positions

    async def _hold(self) -> int:
        """The horizon of an aligned plan: brokers have clocks of their own, so what is
        complete at all of them ends at the earliest."""
        horizons: list[int] = [0] if not self._wishes else []
        for share, positions in self._positions().items():
            requests = [self._wishes[at].request for at in positions]
            held = await share.hold(self._caller, self._reader, requests)
            horizons.append(held.horizon)
            self._held.update(zip(positions, held.fragments, strict=True))
        return min(horizons)

    def _empty(self, limits: PlanLimits, horizon: int) -> Plan:
        held = [self._held[at] for at in range(len(self._wishes))]
        firsts = [one.first for one in held]
        backlogs = [one.backlog for one in held]
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

    async def _fill(self, made: Plan) -> None:
        portion = min(_PORTION, _HELD // max(1, len(self._wishes)))
        while not made.is_done():
            for at in made.wanted():
                await self._supply(made, at, portion)
                await asyncio.sleep(0)
            made.advance(_PORTION)
            await asyncio.sleep(0)

    async def _supply(self, made: Plan, at: int, portion: int) -> None:
        wish = self._wishes[at]
        request = OutlinesRequest(
            path=wish.request.path,
            index=wish.request.index,
            first=made.next_of(at),
            last=self._held[at].last,
            count=portion,
        )
        found = await wish.share.outlines(self._caller, request)
        made.supply(at, found.outlines, found.is_last)

    async def _note(self, made: Plan) -> None:
        def note(at: int, held: HeldFragment) -> PlanNote | None:
            return self._plan_note(at, held.first, made.ranges[at].end - 1)

        for share, notes in self._notes(note).items():
            await share.note_plans(self._caller, self._reader, notes)

    async def _restore(self) -> None:
        def note(at: int, held: HeldFragment) -> PlanNote | None:
            return held.before and self._plan_note(at, *held.before)

        for share, notes in self._notes(note).items():
            # A broker that does not answer keeps more than was planned: the next plan
            # replaces that.
            with suppress(ServiceBusError):
                await share.restore_plans(self._caller, self._reader, notes)

    def _notes(
        self, note: Callable[[int, HeldFragment], PlanNote | None]
    ) -> dict[BrokerShare, list[PlanNote]]:
        """For each broker, of those of its fragments that are held under a lease."""
        notes: dict[BrokerShare, list[PlanNote]] = {}
        for at, held in self._held.items():
            made = note(at, held)
            if made is not None:
                notes.setdefault(self._wishes[at].share, []).append(made)
        return notes

    def _plan_note(self, at: int, first: int, through: int) -> PlanNote | None:
        """None without a lease."""
        request = self._wishes[at].request
        if request.epoch is None:
            return None
        return PlanNote(
            path=request.path,
            index=request.index,
            epoch=request.epoch,
            first=first,
            through=through,
            hold=self._held[at].hold,
        )


def _planned(path: str, index: int, planned: PlannedRange) -> PlannedFragment:
    base = index << SEQUENCE_BITS
    return PlannedFragment(
        path=path,
        index=index,
        first=base + planned.first,
        end=base + planned.end,
        splits=[
            PlannedSplit(
                first=base + split.first,
                end=base + split.end,
                message_count=split.message_count,
                size_bytes=split.size_bytes,
            )
            for split in planned.splits
        ],
    )
