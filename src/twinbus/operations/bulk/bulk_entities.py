"""Bulk requests on the entities of a namespace.

The fragments that a request names may be at several brokers. Each broker does its share
(`shares.py`), and this puts them together: leases are taken at all of them or at none,
and what changes messages is checked at all before it is done at any.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from fnmatch import translate
from typing import Final, TypeVar

from twinbus.auth.claims import Claim
from twinbus.auth.policy import Policy
from twinbus.broker.fragment import DEAD_LETTER, MAIN
from twinbus.entities.message_source import MessageSource
from twinbus.entities.namespace import Namespace
from twinbus.errors import MessagingEntityNotFound, NotAllowed, ServiceBusError
from twinbus.operations.bulk import ranges
from twinbus.operations.bulk.lease_spread import LeaseSpread
from twinbus.operations.bulk.local_share import LocalShare
from twinbus.operations.bulk.plans import PlanMaking, PlanWish
from twinbus.operations.bulk.reading import (
    check_distinct,
    check_generation,
    check_index,
    find_source,
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
    RefusedRow,
    Settled,
    SettleRequest,
)
from twinbus.operations.bulk.row_places import RowPlaces
from twinbus.operations.bulk.settlements import by_fragment
from twinbus.operations.bulk.shares import (
    BrokerShare,
    FragmentsOf,
    HoldRequest,
    NoOtherShares,
    OtherShares,
)
from twinbus.operations.bulk.spread import Spread
from twinbus.operations.caller import Caller

T = TypeVar("T")

_DEAD_LETTERS: Final = "/$deadletterqueue"

_ENTITIES: Final = 100
_ROWS: Final = 250
"""Entities and rows that are looked up before other tasks run."""


class BulkEntities:
    """Finds the entities of a bulk request, and has each broker do its share."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self.here = LocalShare(namespace)
        # Set when this process joins a cluster.
        self.others: OtherShares = NoOtherShares()

    @property
    def policy(self) -> Policy:
        return self._namespace.policy

    @property
    def namespace_name(self) -> str:
        return self._namespace.name

    @property
    def namespace_created_at(self) -> int:
        """With the name, it tells this namespace from every other."""
        return self._namespace.created_at

    def _spread(self, path: str, caller: Caller) -> Spread:
        """Raises MessagingEntityNotFound, NotAllowed, UnauthorizedAccess."""
        entity, parsed = find_source(self._namespace, path, caller)
        return Spread(entity, parsed, self.here, self.others)

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

    # --- bounds ---------------------------------------------------------------

    async def runtime(
        self, caller: Caller, paths: Sequence[str]
    ) -> list[EntityRuntime | None]:
        wanted: dict[BrokerShare, list[tuple[int, FragmentsOf]]] = {}
        for at, path in enumerate(paths):
            try:
                shares = self._spread(path, caller).shares()
            except (MessagingEntityNotFound, NotAllowed):
                continue
            for share, indexes in shares.items():
                asked = FragmentsOf(path=path, indexes=indexes)
                wanted.setdefault(share, []).append((at, asked))
            if at % _ENTITIES == _ENTITIES - 1:
                await asyncio.sleep(0)
        parts: list[list[EntityRuntime | None]] = [[] for _ in paths]
        for share, positions in wanted.items():
            found = await share.runtime(caller, [asked for _, asked in positions])
            for (at, _), part in zip(positions, found, strict=True):
                parts[at].append(part)
        return [_joined(some) for some in parts]

    # --- leases ---------------------------------------------------------------

    async def lease(
        self,
        caller: Caller,
        reader: str,
        duration_ms: int,
        requests: Sequence[LeaseRequest],
    ) -> list[LeaseGrant]:
        spreads = [self._spread(request.path, caller) for request in requests]
        check_distinct(spreads)
        wanted = LeaseSpread(caller, reader)
        for at, (spread, request) in enumerate(zip(spreads, requests, strict=True)):
            is_renewal = request.epoch is not None
            shares = spread.served_shares() if is_renewal else spread.shares()
            wanted.add(at, request, shares)
        return await wanted.lease(duration_ms)

    async def release(
        self, caller: Caller, reader: str, requests: Sequence[LeaseRequest]
    ) -> int:
        held = LeaseSpread(caller, reader)
        for at, request in enumerate(requests):
            try:
                shares = self._spread(request.path, caller).served_shares()
            except (MessagingEntityNotFound, NotAllowed):
                continue
            held.add(at, request, shares)
        return await held.release()

    # --- plans ----------------------------------------------------------------

    async def plan(
        self,
        caller: Caller,
        reader: str,
        requests: Sequence[PlanRequest],
        limits: PlanLimits,
    ) -> list[PlannedFragment]:
        spreads = [self._spread(request.path, caller) for request in requests]
        check_distinct(spreads)
        wishes: list[PlanWish] = []
        for spread, request in zip(spreads, requests, strict=True):
            wishes += _plan_wishes(spread, request)
        return await PlanMaking(caller, reader, wishes).plan(limits)

    # --- messages -------------------------------------------------------------

    def elsewhere(self, caller: Caller, path: str, index: int) -> str | None:
        """The address of the broker that has a fragment, if it is another one. Raises
        MessagingEntityNotFound, NotAllowed, UnauthorizedAccess, ArgumentError."""
        spread = self._spread(path, caller)
        check_index(spread, index, "fragment")
        return self.others.address_of(spread.entity.home(index))

    def browse(
        self, caller: Caller, request: BrowseRequest
    ) -> AsyncIterator[BrowsedMessages]:
        """Of a fragment that this broker has."""
        handle = open_source(self._namespace, request.path, caller)
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
            request.sessions,
        )

    async def settle(
        self, caller: Caller, reader: str, requests: Sequence[SettleRequest]
    ) -> list[Settled]:
        wanted: dict[BrokerShare, list[tuple[int, SettleRequest]]] = {}
        for at, request in enumerate(requests):
            for share, part in self._settle_shares(caller, request).items():
                wanted.setdefault(share, []).append((at, part))
        if len(wanted) > 1:
            for share, parts in wanted.items():
                await share.check_settlements(caller, reader, _only(parts))
        settled: list[list[Settled]] = [[] for _ in requests]
        for share, parts in wanted.items():
            found = await share.settle(caller, reader, _only(parts))
            for (at, _), one in zip(parts, found, strict=True):
                settled[at].append(one)
        return [_added(some) for some in settled]

    def _settle_shares(
        self, caller: Caller, request: SettleRequest
    ) -> dict[BrokerShare, SettleRequest]:
        """The part of each broker. A request that names nothing is about the lease."""
        spread = self._spread(request.path, caller)
        by_index = by_fragment(spread, request)
        shares = spread.shares(by_index or None)
        if len(shares) == 1:
            return dict.fromkeys(shares, request)
        if not by_index:
            return {
                share: replace(request, indexes=indexes)
                for share, indexes in shares.items()
            }
        return {
            share: _part_of(request, [by_index[index] for index in indexes or ()])
            for share, indexes in shares.items()
        }

    async def append(
        self, caller: Caller, entities: Sequence[str], messages: Sequence[bytes]
    ) -> Appended:
        """Raises UnauthorizedAccess if the caller may not send to all of them."""
        places = RowPlaces(self._namespace, caller, self.here, self.others)
        rows: dict[BrokerShare, list[int]] = {}
        for row, path in enumerate(entities):
            rows.setdefault(places.share_of(path, messages[row]), []).append(row)
            if row % _ROWS == _ROWS - 1:
                await asyncio.sleep(0)
        if rows.keys() <= {self.here}:
            return await self.here.append(caller, entities, messages)
        for path in set(entities):
            caller.require(Claim.SEND, path)
        parts = await asyncio.gather(
            *(
                _append_rows(share, caller, some, entities, messages)
                for share, some in rows.items()
            )
        )
        return Appended(
            applied_count=sum(part.applied_count for part in parts),
            known=sorted(row for part in parts for row in part.known),
            refused=sorted(
                (refused for part in parts for refused in part.refused),
                key=lambda refused: refused.row,
            ),
        )


def _joined(parts: Sequence[EntityRuntime | None]) -> EntityRuntime | None:
    """The bounds of an entity, with the fragments of all brokers."""
    found = [part for part in parts if part is not None]
    if not found or len(found) < len(parts):
        return None
    fragments = [fragment for part in found for fragment in part.fragments]
    fragments.sort(key=lambda fragment: fragment.index)
    return replace(found[0], fragments=fragments)


def _plan_wishes(spread: Spread, request: PlanRequest) -> list[PlanWish]:
    """All fragments of one entity, by index. Raises ArgumentError."""
    check_generation(spread, request.generation)
    for what, positions in (("from", request.firsts), ("to", request.ends)):
        for index in positions:
            check_index(spread, index, what)
    return [
        PlanWish(
            share=spread.share_of(index),
            request=HoldRequest(
                path=request.path,
                index=index,
                generation=request.generation,
                epoch=request.epoch,
                first=request.firsts.get(index),
                end=request.ends.get(index),
                first_time=request.first_time,
                end_time=request.end_time,
            ),
        )
        for index in range(spread.fragment_count)
    ]


def _only(parts: Sequence[tuple[int, T]]) -> list[T]:
    return [part for _, part in parts]


def _part_of(request: SettleRequest, shares: Sequence[SettleRequest]) -> SettleRequest:
    """The shares of several fragments as one request."""
    return replace(
        request,
        dead_letter=[poison for share in shares for poison in share.dead_letter],
        defer=[number for share in shares for number in share.defer],
        complete=[number for share in shares for number in share.complete],
        ends={index: end for share in shares for index, end in share.ends.items()},
    )


def _added(settled: Sequence[Settled]) -> Settled:
    """What several brokers settled of one entity."""
    return Settled(
        path=settled[0].path,
        completed=sum(one.completed for one in settled),
        dead_lettered=sum(one.dead_lettered for one in settled),
        deferred=sum(one.deferred for one in settled),
    )


async def _append_rows(
    share: BrokerShare,
    caller: Caller,
    rows: Sequence[int],
    entities: Sequence[str],
    messages: Sequence[bytes],
) -> Appended:
    """Some of the rows, at one broker; the answer is about the rows of the request."""
    try:
        found = await share.append(
            caller, [entities[row] for row in rows], [messages[row] for row in rows]
        )
    except ServiceBusError as error:
        # The broker is lost. Rows with ids are not sent twice if they come again.
        refused = [
            RefusedRow(
                row=row,
                condition=error.condition,
                text=error.text,
                is_retryable=error.retryable,
            )
            for row in rows
        ]
        return Appended(applied_count=0, known=(), refused=refused)
    return Appended(
        applied_count=found.applied_count,
        known=[rows[at] for at in found.known],
        refused=[replace(one, row=rows[one.row]) for one in found.refused],
    )
