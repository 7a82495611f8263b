"""The entities of a namespace, as bulk requests see them."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from fnmatch import translate
from functools import partial
from typing import Final

from twinbus.auth.policy import Policy
from twinbus.broker.fragment import DEAD_LETTER, MAIN
from twinbus.broker.home import Home
from twinbus.broker.row_id import SEQUENCE_MASK
from twinbus.entities.message_source import MessageSource
from twinbus.entities.namespace import Namespace
from twinbus.errors import (
    ArgumentError,
    MessagingEntityNotFound,
    NotAllowed,
    ServerBusy,
)
from twinbus.operations.bulk import leases, plans, ranges
from twinbus.operations.bulk.appends import Append
from twinbus.operations.bulk.plans import Wanted
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
from twinbus.operations.bulk.settlements import Settlement
from twinbus.operations.bulk.source import (
    ONLY_FRAGMENT,
    Source,
    check_distinct,
    find_source,
)

_DEAD_LETTERS: Final = "/$deadletterqueue"

_ACTORS: Final = 1_000
"""Of whom it is known how they are called in the operation log."""


class BulkEntities:
    """Implements what the bulk requests ask for."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        # Numbers in the operation log of each store.
        self._actors: dict[tuple[Home, str], int] = {}

    @property
    def policy(self) -> Policy:
        return self._namespace.policy

    def _source(self, path: str) -> Source:
        return find_source(self._namespace, path)

    def _actor(self, home: Home, who: str) -> int:
        key = (home, who)
        if key not in self._actors:
            if len(self._actors) >= _ACTORS:
                self._actors.clear()
            self._actors[key] = home.introduce(f"bulk {who}")
        return self._actors[key]

    def matching(self, pattern: str) -> list[str]:
        """Of a pattern that ends in the name of the sub-queue, the sub-queues."""
        lower = pattern.strip("/").lower()
        suffix = ""
        if lower.endswith(_DEAD_LETTERS):
            lower, suffix = lower[: -len(_DEAD_LETTERS)], "/$DeadLetterQueue"
        sub_queue = DEAD_LETTER if suffix else MAIN
        # Once for all entities; `fnmatch` itself would keep thousands of patterns.
        fits = re.compile(translate(lower)).match
        return [
            entity.path + suffix
            for entity in self._namespace.entities()
            if isinstance(entity, MessageSource)
            and fits(entity.path.lower())
            and not entity.forward_target(sub_queue)
        ]

    async def runtime(self, paths: Sequence[str]) -> list[EntityRuntime | None]:
        found = []
        for path in paths:
            found.append(await self._runtime(path))
            # A thousand of them take their time.
            await asyncio.sleep(0)
        return found

    async def _runtime(self, path: str) -> EntityRuntime | None:
        try:
            return await runtime_of(self._source(path))
        except (MessagingEntityNotFound, NotAllowed):
            return None

    async def lease(
        self, reader: str, duration_ms: int, requests: Sequence[LeaseRequest]
    ) -> list[LeaseGrant]:
        wanted = [(self._source(r.path), r.epoch) for r in requests]
        check_distinct(source for source, _ in wanted)
        return await leases.lease(reader, duration_ms, wanted)

    async def release(self, reader: str, requests: Sequence[LeaseRequest]) -> int:
        held = []
        for request in requests:
            try:
                held.append((self._source(request.path), request.epoch or ""))
            except (MessagingEntityNotFound, NotAllowed):
                continue
        return await leases.release(reader, held)

    async def plan(
        self, reader: str, requests: Sequence[PlanRequest], limits: PlanLimits
    ) -> list[PlannedFragment]:
        wanted = [await self._wanted(request) for request in requests]
        check_distinct(part.source for part in wanted)
        return await plans.plan(reader, wanted, limits)

    async def _wanted(self, request: PlanRequest) -> Wanted:
        source = self._source(request.path)
        source.check_generation(request.generation)
        first = source.number_in(request.firsts, "from")
        end = source.number_in(request.ends, "to")
        if request.first_time is not None:
            since = await plans.first_since(source, request.first_time)
            first = max(since, first or 0)
        if request.end_time is not None:
            until = await plans.first_since(source, request.end_time)
            end = until if end is None else min(until, end)
        return Wanted(
            source=source,
            first=0 if first is None else first,
            last=SEQUENCE_MASK if end is None else end - 1,
            epoch=request.epoch,
        )

    def browse(self, request: BrowseRequest) -> AsyncIterator[BrowsedMessages]:
        source = self._source(request.path)
        source.check_generation(request.generation)
        if request.index != ONLY_FRAGMENT:
            raise ArgumentError(
                f"'{source.path}' has fragment 0 only, not {request.index}.",
                entity_path=source.path,
            )
        return ranges.browse(
            source,
            source.local(request.first, "from"),
            source.local(request.end, "to"),
            request.columns,
            request.states,
            request.max_bytes,
        )

    async def settle(
        self, reader: str, requests: Sequence[SettleRequest]
    ) -> list[Settled]:
        return [await self._settle(reader, request) for request in requests]

    async def _settle(self, reader: str, request: SettleRequest) -> Settled:
        source = self._source(request.path)
        end = source.number_in(request.ends, "to")
        actor = self._actor(source.fragment.home, reader)
        settlement = Settlement(source, reader, request.epoch, actor)
        try:
            return await settlement.apply(request, None if end is None else end - 1)
        except ServerBusy as error:
            # A settlement is many commits, and those of before have happened.
            raise ServerBusy(
                "The message store could not take all of the settlement; it went as "
                f"far as '{source.path}'. Settle again: what is settled stays so.",
                entity_path=source.path,
            ) from error

    async def append(
        self,
        entities: Sequence[str],
        messages: Sequence[bytes],
        who: str,
        may_restore: bool,
    ) -> Appended:
        actor_in = partial(self._actor, who=who)
        appending = Append(self._namespace, actor_in, may_restore)
        return await appending.apply(entities, messages)
