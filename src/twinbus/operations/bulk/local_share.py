"""What this broker does for bulk requests: it opens the entities, and calls the
operations on the fragments that it has."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from twinbus.broker.row_id import SEQUENCE_MASK
from twinbus.entities.namespace import Namespace
from twinbus.errors import MessagingEntityNotFound, NotAllowed, ServerBusy
from twinbus.operations.bulk import leases, plan_holds, settlements
from twinbus.operations.bulk.appends import Append
from twinbus.operations.bulk.leases import LeaseWish
from twinbus.operations.bulk.plan_holds import Wanted
from twinbus.operations.bulk.reading import (
    check_generation,
    check_index,
    open_source,
)
from twinbus.operations.bulk.requests import (
    Appended,
    EntityRuntime,
    LeaseGrant,
    LeaseRequest,
    Settled,
    SettleRequest,
)
from twinbus.operations.bulk.runtimes import runtime_of
from twinbus.operations.bulk.shares import (
    FragmentsOf,
    HeldFragments,
    HoldRequest,
    LeaseCheck,
    OutlinesRequest,
    PlanNote,
    SomeOutlines,
)
from twinbus.operations.caller import Caller
from twinbus.operations.entity_handle import EntityHandle
from twinbus.operations.fragment_handle import FragmentHandle


class LocalShare:
    """The share of this broker (see `shares.py`)."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    def _open(
        self, caller: Caller, path: str, indexes: Sequence[int] | None
    ) -> EntityHandle:
        """Raises MessagingEntityNotFound, NotAllowed, UnauthorizedAccess,
        ArgumentError."""
        handle = open_source(self._namespace, path, caller)
        for index in indexes or ():
            check_index(handle, index, "fragment")
        handle.only = indexes
        return handle

    def _open_part(self, caller: Caller, path: str, index: int) -> FragmentHandle:
        """Raises as `_open`, and FragmentUnavailable."""
        return self._open(caller, path, (index,)).part(index)

    # --- bounds ---------------------------------------------------------------

    async def runtime(
        self, caller: Caller, wanted: Sequence[FragmentsOf]
    ) -> list[EntityRuntime | None]:
        found: list[EntityRuntime | None] = []
        for one in wanted:
            runtime = None
            with suppress(MessagingEntityNotFound, NotAllowed):
                runtime = await runtime_of(self._open(caller, one.path, one.indexes))
            found.append(runtime)
            # Let other tasks run: there may be a thousand.
            await asyncio.sleep(0)
        return found

    # --- leases ---------------------------------------------------------------

    async def check_leases(
        self, caller: Caller, reader: str, requests: Sequence[LeaseRequest]
    ) -> list[LeaseCheck]:
        return leases.check_leases(reader, self._wishes(caller, requests))

    async def lease(
        self,
        caller: Caller,
        reader: str,
        duration_ms: int,
        requests: Sequence[LeaseRequest],
    ) -> list[LeaseGrant]:
        wishes = self._wishes(caller, requests)
        return await leases.lease(reader, duration_ms, wishes)

    def _wishes(
        self, caller: Caller, requests: Sequence[LeaseRequest]
    ) -> list[LeaseWish]:
        return [
            LeaseWish(
                handle=self._open(caller, request.path, request.indexes),
                epoch=request.epoch,
                least_epoch=request.least_epoch,
            )
            for request in requests
        ]

    async def release(
        self, caller: Caller, reader: str, requests: Sequence[LeaseRequest]
    ) -> list[bool]:
        opened: list[tuple[EntityHandle, str] | None] = []
        for request in requests:
            held = None
            with suppress(MessagingEntityNotFound, NotAllowed):
                handle = self._open(caller, request.path, request.indexes)
                held = handle, request.epoch or ""
            opened.append(held)
        released = await leases.release(reader, [one for one in opened if one])
        were_held = iter(released)
        return [one is not None and next(were_held) for one in opened]

    # --- plans ----------------------------------------------------------------

    async def hold(
        self, caller: Caller, reader: str, requests: Sequence[HoldRequest]
    ) -> HeldFragments:
        wanted = [await self._wanted(caller, request) for request in requests]
        return await plan_holds.hold(reader, wanted)

    async def _wanted(self, caller: Caller, request: HoldRequest) -> Wanted:
        handle = self._open(caller, request.path, (request.index,))
        check_generation(handle, request.generation)
        part = handle.part(request.index)
        first, last = 0, SEQUENCE_MASK
        if request.first is not None:
            first = part.local(request.first, "from")
        if request.end is not None:
            last = part.local(request.end, "to") - 1
        if request.first_time is not None:
            since = await plan_holds.first_since(part, request.first_time)
            first = max(first, since)
        if request.end_time is not None:
            until = await plan_holds.first_since(part, request.end_time)
            last = min(last, until - 1)
        return Wanted(handle=part, first=first, last=last, epoch=request.epoch)

    async def outlines(self, caller: Caller, request: OutlinesRequest) -> SomeOutlines:
        part = self._open_part(caller, request.path, request.index)
        return await plan_holds.read_outlines(
            part, request.first, request.last, request.count
        )

    async def note_plans(
        self, caller: Caller, reader: str, notes: Sequence[PlanNote]
    ) -> None:
        await plan_holds.note_plans(reader, self._noted(caller, notes))

    async def restore_plans(
        self, caller: Caller, reader: str, notes: Sequence[PlanNote]
    ) -> None:
        plan_holds.restore_plans(reader, self._noted(caller, notes))

    def _noted(
        self, caller: Caller, notes: Sequence[PlanNote]
    ) -> list[tuple[FragmentHandle, PlanNote]]:
        return [
            (self._open_part(caller, note.path, note.index), note) for note in notes
        ]

    # --- settlements ----------------------------------------------------------

    async def check_settlements(
        self, caller: Caller, reader: str, requests: Sequence[SettleRequest]
    ) -> None:
        for request in requests:
            handle = self._open(caller, request.path, request.indexes)
            settlements.check_ranges(handle, reader, request)

    async def settle(
        self, caller: Caller, reader: str, requests: Sequence[SettleRequest]
    ) -> list[Settled]:
        await self.check_settlements(caller, reader, requests)
        return [await self._settle(caller, reader, request) for request in requests]

    async def _settle(
        self, caller: Caller, reader: str, request: SettleRequest
    ) -> Settled:
        handle = self._open(caller, request.path, request.indexes)
        try:
            return await settlements.settle_ranges(handle, reader, request)
        except ServerBusy as error:
            # A settlement has many commits, and earlier ones are done.
            raise ServerBusy(
                "The message store could not complete the settlement: it stopped at "
                f"'{handle.path}'. Settle again; settled messages stay settled.",
                entity_path=handle.path,
            ) from error

    # --- sends ----------------------------------------------------------------

    async def append(
        self, caller: Caller, entities: Sequence[str], messages: Sequence[bytes]
    ) -> Appended:
        return await Append(self._namespace, caller).apply(entities, messages)
