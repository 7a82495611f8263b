"""Settles planned messages: single ones by number, the rest by range."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from twinbus.auth.claims import Claim
from twinbus.broker import range_settlement, reader_lease
from twinbus.broker.message import Message
from twinbus.broker.row_id import sequence_of
from twinbus.errors import NotAllowed
from twinbus.operations.bulk.reading import (
    Fragmented,
    check_index,
    held_lease,
    index_of,
    numbers_in,
)
from twinbus.operations.bulk.requests import Poison, Settled, SettleRequest
from twinbus.operations.entity_handle import EntityHandle
from twinbus.operations.fragment_handle import FragmentHandle

_PORTION: Final = 500
"""Messages in one commit: other tasks run between commits."""


async def settle_ranges(
    handle: EntityHandle, reader: str, request: SettleRequest
) -> Settled:
    """Settle messages of one entity. All numbers and leases are checked first.

    Raises ReaderLeaseLost, ArgumentError, ArgumentOutOfRange, NotAllowed.
    """
    settled = [
        await RangeSettlement(part, reader, request.epoch).apply(share)
        for part, share in check_ranges(handle, reader, request).items()
    ]
    return Settled(
        path=handle.path,
        completed=sum(one.completed for one in settled),
        dead_lettered=sum(one.dead_lettered for one in settled),
        deferred=sum(one.deferred for one in settled),
    )


def check_ranges(
    handle: EntityHandle, reader: str, request: SettleRequest
) -> dict[FragmentHandle, SettleRequest]:
    """The share of each fragment in the request. Raises as `settle_ranges`, and
    FragmentUnavailable."""
    handle.require(Claim.LISTEN)
    if request.dead_letter:
        _check_may_dead_letter(handle)
    numbers_in(handle, request.ends, "to")
    shares = {
        handle.part(index): share
        for index, share in by_fragment(handle, request).items()
    }
    for part in shares or handle.parts():
        held_lease(part, reader, request.epoch)
    return shares


def by_fragment(source: Fragmented, request: SettleRequest) -> dict[int, SettleRequest]:
    """The share of each fragment that a request names, by index. Raises
    ArgumentError, ArgumentOutOfRange."""
    dead_letters: dict[int, list[Poison]] = {}
    for poison in request.dead_letter:
        index = index_of(source, poison.sequence_number, "sequence_number")
        dead_letters.setdefault(index, []).append(poison)
    deferred = _numbers_by_index(source, request.defer, "defer")
    completed = _numbers_by_index(source, request.complete, "complete")
    for index in request.ends:
        check_index(source, index, "to")
    indexes = sorted({*dead_letters, *deferred, *completed, *request.ends})
    return {
        index: replace(
            request,
            dead_letter=dead_letters.get(index, ()),
            defer=deferred.get(index, ()),
            complete=completed.get(index, ()),
            ends={i: end for i, end in request.ends.items() if i == index},
        )
        for index in indexes
    }


def _numbers_by_index(
    source: Fragmented, numbers: Sequence[int], what: str
) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for number in numbers:
        found.setdefault(index_of(source, number, what), []).append(number)
    return found


class RangeSettlement:
    """A settlement by one reader of one fragment."""

    def __init__(self, handle: FragmentHandle, reader: str, epoch: str) -> None:
        self._handle = handle
        self._reader = reader
        self._epoch = epoch
        self._actor = handle.actor

    async def apply(self, request: SettleRequest) -> Settled:
        """The fragment's share of a request. Raises ReaderLeaseLost."""
        handle = self._handle
        handle.require(Claim.LISTEN)
        await handle.settle_down()
        dead_lettered = await self._dead_letter(request.dead_letter)
        deferred = await self._defer(request.defer)
        completed = await self._complete_deferred(request.complete)
        end = request.ends.get(handle.index)
        if end is not None:
            completed += await self._complete_through(handle.local(end, "to") - 1)
        return Settled(
            path=handle.path,
            completed=completed,
            dead_lettered=dead_lettered,
            deferred=deferred,
        )

    async def _dead_letter(self, poison: Sequence[Poison]) -> int:
        by_row = {self._row_id(p.sequence_number, "sequence_number"): p for p in poison}
        handle = self._handle
        fragment = handle.fragment

        def dead_letter(message: Message) -> None:
            why = by_row[message.row_id]
            range_settlement.dead_letter(
                fragment,
                message,
                why.reason,
                why.description,
                self._actor,
                handle.now(),
                handle.owner.changes,
            )

        count = await self._for_each_active(list(by_row), dead_letter)
        return count + await self._for_each_deferred(list(by_row), dead_letter)

    async def _defer(self, numbers: Sequence[int]) -> int:
        handle = self._handle

        def defer(message: Message) -> None:
            range_settlement.defer(
                handle.fragment,
                message,
                self._actor,
                handle.now(),
                handle.owner.changes,
            )

        row_ids = [self._row_id(number, "defer") for number in numbers]
        return await self._for_each_active(row_ids, defer)

    async def _for_each_active(
        self, row_ids: Sequence[int], settle: Callable[[Message], None]
    ) -> int:
        """Settle those that still exist; an earlier attempt has settled the others."""
        handle, count = self._handle, 0
        for portion in _portions(row_ids):
            async with handle.owner.reading:
                found = await handle.owner.store.read_numbered(portion)
                held_lease(handle, self._reader, self._epoch)
                for message in handle.owner.without_leaving(found):
                    settle(message)
                    count += 1
            await handle.owner.durable()
        return count

    async def _complete_deferred(self, numbers: Sequence[int]) -> int:
        handle = self._handle

        def complete(message: Message) -> None:
            range_settlement.complete_deferred(
                handle.fragment,
                message,
                self._actor,
                handle.now(),
                handle.owner.changes,
            )

        row_ids = [self._row_id(number, "complete") for number in numbers]
        return await self._for_each_deferred(row_ids, complete)

    async def _for_each_deferred(
        self, row_ids: Sequence[int], settle: Callable[[Message], None]
    ) -> int:
        """Settle those that exist and that no client has received by number."""
        handle, count = self._handle, 0
        fragment, owner = handle.fragment, handle.owner
        for portion in _portions(row_ids):
            async with owner.reading:
                found = await owner.store.read_deferred(portion)
                held_lease(handle, self._reader, self._epoch)
                # A client that has received one settles it itself.
                taken = {*fragment.locks, *owner.changes.deferred_removed}
                for message in found:
                    if message.row_id not in taken:
                        settle(message)
                        count += 1
            await owner.durable()
        return count

    async def _complete_through(self, through: int) -> int:
        """Complete all planned messages up to and including a number."""
        handle, count = self._handle, 0
        fragment, owner = handle.fragment, handle.owner
        while True:
            async with owner.reading:
                lease = held_lease(handle, self._reader, self._epoch)
                last = min(through, lease.planned_through)
                found = await owner.store.outlines(
                    fragment.number, lease.planned_from, last, _PORTION
                )
                lease = held_lease(handle, self._reader, self._epoch)
                is_over = len(found) < _PORTION
                done = last if is_over else sequence_of(found.row_ids[-1])
                staying = found.without(set(owner.changes.active_removed))
                range_settlement.complete(
                    fragment, staying, self._actor, handle.now(), owner.changes
                )
                count += len(staying)
                reader_lease.settled_through(fragment, lease, done, owner.changes)
            await owner.durable()
            if is_over:
                return count

    def _row_id(self, number: int, what: str) -> int:
        return self._handle.fragment.base + self._handle.local(number, what)


def _check_may_dead_letter(handle: EntityHandle) -> None:
    """Raises NotAllowed: a dead letter would return at the end of its queue, and its
    reader would never reach the end."""
    if handle.settings.is_dead_letter_queue:
        raise NotAllowed(
            f"'{handle.path}' is a dead-letter queue: its messages cannot be "
            "dead-lettered again. Complete or defer them.",
            entity_path=handle.path,
        )


def _portions(row_ids: Sequence[int]) -> Iterator[list[int]]:
    for at in range(0, len(row_ids), _PORTION):
        yield list(row_ids[at : at + _PORTION])
