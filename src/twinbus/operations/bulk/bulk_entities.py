"""Bulk requests on the entities of a namespace."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from fnmatch import translate
from typing import Final

from twinbus.auth.policy import Policy
from twinbus.broker.fragment import DEAD_LETTER, MAIN
from twinbus.broker.row_id import SEQUENCE_MASK
from twinbus.entities.message_source import MessageSource
from twinbus.entities.namespace import Namespace
from twinbus.errors import (
    MessagingEntityNotFound,
    NotAllowed,
    ServerBusy,
)
from twinbus.operations.bulk import leases, plans, ranges, settlements
from twinbus.operations.bulk.appends import Append
from twinbus.operations.bulk.plans import Wanted
from twinbus.operations.bulk.reading import (
    check_distinct,
    check_generation,
    check_index,
    numbers_in,
    open_source,
)
from twinbus.operations.bulk.requests import (
    Appended,
    BrowsedMessages,
    BrowseRequest,
    EntityRuntime,
    LeaseGrant,
    LeaseRequest,
    PlanLimits,
    PlannedFragment,
    PlanRequest,
    Settled,
    SettleRequest,
)
from twinbus.operations.bulk.runtimes import runtime_of
from twinbus.operations.caller import Caller
from twinbus.operations.entity_handle import EntityHandle

_DEAD_LETTERS: Final = "/$deadletterqueue"


class BulkEntities:
    """Opens the entities of a bulk request, and calls the operations."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    @property
    def policy(self) -> Policy:
        return self._namespace.policy

    def _open(self, path: str, caller: Caller) -> EntityHandle:
        return open_source(self._namespace, path, caller)

    def matching(self, pattern: str) -> list[str]:
        """Paths that match. If the pattern ends in the name of the dead-letter queue,
        they are paths of dead-letter queues."""
        lower = pattern.strip("/").lower()
        suffix = ""
        if lower.endswith(_DEAD_LETTERS):
            lower, suffix = lower[: -len(_DEAD_LETTERS)], "/$DeadLetterQueue"
        sub_queue = DEAD_LETTER if suffix else MAIN
        # `fnmatch` would keep thousands of compiled patterns in its cache.
        fits = re.compile(translate(lower)).match
        return [
            entity.path + suffix
            for entity in self._namespace.entities()
            if isinstance(entity, MessageSource)
            and fits(entity.path.lower())
            and not entity.forward_target(sub_queue)
        ]

    async def runtime(
        self, caller: Caller, paths: Sequence[str]
    ) -> list[EntityRuntime | None]:
        found = []
        for path in paths:
            found.append(await self._runtime(caller, path))
            # Let other tasks run: there may be a thousand.
            await asyncio.sleep(0)
        return found

    async def _runtime(self, caller: Caller, path: str) -> EntityRuntime | None:
        try:
            return await runtime_of(self._open(path, caller))
        except (MessagingEntityNotFound, NotAllowed):
            return None

    async def lease(
        self,
        caller: Caller,
        reader: str,
        duration_ms: int,
        requests: Sequence[LeaseRequest],
    ) -> list[LeaseGrant]:
        wanted = [(self._open(r.path, caller), r.epoch) for r in requests]
        check_distinct(handle for handle, _ in wanted)
        return await leases.lease(reader, duration_ms, wanted)

    async def release(
        self, caller: Caller, reader: str, requests: Sequence[LeaseRequest]
    ) -> int:
        held = []
        for request in requests:
            try:
                held.append((self._open(request.path, caller), request.epoch or ""))
            except (MessagingEntityNotFound, NotAllowed):
                continue
        return await leases.release(reader, held)

    async def plan(
        self,
        caller: Caller,
        reader: str,
        requests: Sequence[PlanRequest],
        limits: PlanLimits,
    ) -> list[PlannedFragment]:
        opened = [(self._open(request.path, caller), request) for request in requests]
        check_distinct(handle for handle, _ in opened)
        wanted: list[Wanted] = []
        for handle, request in opened:
            wanted += await self._wanted(handle, request)
        return await plans.plan(reader, wanted, limits)

    async def _wanted(self, handle: EntityHandle, request: PlanRequest) -> list[Wanted]:
        """The fragments of one entity."""
        check_generation(handle, request.generation)
        firsts = numbers_in(handle, request.firsts, "from")
        ends = numbers_in(handle, request.ends, "to")
        wanted: list[Wanted] = []
        for part in handle.parts():
            first, end = firsts.get(part.index, 0), ends.get(part.index)
            if request.first_time is not None:
                first = max(first, await plans.first_since(part, request.first_time))
            if request.end_time is not None:
                until = await plans.first_since(part, request.end_time)
                end = until if end is None else min(until, end)
            last = SEQUENCE_MASK if end is None else end - 1
            wanted.append(
                Wanted(handle=part, first=first, last=last, epoch=request.epoch)
            )
        return wanted

    def browse(
        self, caller: Caller, request: BrowseRequest
    ) -> AsyncIterator[BrowsedMessages]:
        handle = self._open(request.path, caller)
        check_generation(handle, request.generation)
        check_index(handle, request.index, "fragment")
        part = handle.part(request.index)
        return ranges.browse(
            part,
            part.local(request.first, "from"),
            part.local(request.end, "to"),
            request.columns,
            request.states,
            request.max_bytes,
        )

    async def settle(
        self, caller: Caller, reader: str, requests: Sequence[SettleRequest]
    ) -> list[Settled]:
        opened = [(self._open(r.path, caller), r) for r in requests]
        return [await self._settle(reader, *part) for part in opened]

    async def _settle(
        self, reader: str, handle: EntityHandle, request: SettleRequest
    ) -> Settled:
        try:
            return await settlements.settle_ranges(handle, reader, request)
        except ServerBusy as error:
            # A settlement has many commits, and earlier ones are done.
            raise ServerBusy(
                "The message store could not complete the settlement: it stopped at "
                f"'{handle.path}'. Settle again; settled messages stay settled.",
                entity_path=handle.path,
            ) from error

    async def append(
        self, caller: Caller, entities: Sequence[str], messages: Sequence[bytes]
    ) -> Appended:
        return await Append(self._namespace, caller).apply(entities, messages)
