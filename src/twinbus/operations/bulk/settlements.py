"""Settling what a reader has planned: single messages by number, the rest by range."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from twinbus.broker import range_settlement, reader_lease
from twinbus.broker.message import Message
from twinbus.broker.row_id import sequence_of
from twinbus.operations.bulk.requests import Poison, Settled, SettleRequest
from twinbus.operations.bulk.source import Source

_PORTION: Final = 500
"""Messages of one commit: others have their turn in between."""


class Settlement:
    """What one reader says of one source."""

    def __init__(self, source: Source, reader: str, epoch: str, actor: int) -> None:
        self._source = source
        self._reader = reader
        self._epoch = epoch
        self._actor = actor

    async def apply(self, request: SettleRequest, through: int | None) -> Settled:
        """Raises ReaderLeaseLost, ArgumentOutOfRange, NotAllowed."""
        source = self._source
        if request.dead_letter:
            source.check_may_dead_letter()
        source.lease(self._reader, self._epoch)
        await source.settle_down()
        dead_lettered = await self._dead_letter(request.dead_letter)
        deferred = await self._defer(request.defer)
        completed = await self._complete_deferred(request.complete)
        if through is not None:
            completed += await self._complete_through(through)
        return Settled(
            path=source.path,
            completed=completed,
            dead_lettered=dead_lettered,
            deferred=deferred,
        )

    async def _dead_letter(self, poison: Sequence[Poison]) -> int:
        by_row = {self._row_id(p.sequence_number, "sequence_number"): p for p in poison}
        source = self._source
        fragment = source.fragment

        def dead_letter(message: Message) -> None:
            why = by_row[message.row_id]
            range_settlement.dead_letter(
                fragment,
                message,
                why.reason,
                why.description,
                self._actor,
                source.now(),
                source.owner.changes,
            )

        count = await self._for_each_active(list(by_row), dead_letter)
        return count + await self._for_each_deferred(list(by_row), dead_letter)

    async def _defer(self, numbers: Sequence[int]) -> int:
        source = self._source

        def defer(message: Message) -> None:
            range_settlement.defer(
                source.fragment,
                message,
                self._actor,
                source.now(),
                source.owner.changes,
            )

        row_ids = [self._row_id(number, "defer") for number in numbers]
        return await self._for_each_active(row_ids, defer)

    async def _for_each_active(
        self, row_ids: Sequence[int], settle: Callable[[Message], None]
    ) -> int:
        """Those that are still there; the rest was settled by an earlier attempt."""
        source, count = self._source, 0
        for portion in _portions(row_ids):
            async with source.owner.reading:
                found = await source.owner.store.read_numbered(portion)
                source.lease(self._reader, self._epoch)
                for message in source.owner.without_leaving(found):
                    settle(message)
                    count += 1
            await source.owner.durable()
        return count

    async def _complete_deferred(self, numbers: Sequence[int]) -> int:
        source = self._source

        def complete(message: Message) -> None:
            range_settlement.complete_deferred(
                source.fragment,
                message,
                self._actor,
                source.now(),
                source.owner.changes,
            )

        row_ids = [self._row_id(number, "complete") for number in numbers]
        return await self._for_each_deferred(row_ids, complete)

    async def _for_each_deferred(
        self, row_ids: Sequence[int], settle: Callable[[Message], None]
    ) -> int:
        """Those that are there and that nobody has received by number."""
        source, count = self._source, 0
        fragment, owner = source.fragment, source.owner
        for portion in _portions(row_ids):
            async with owner.reading:
                found = await owner.store.read_deferred(portion)
                source.lease(self._reader, self._epoch)
                # Whoever has received one will settle it.
                taken = {*fragment.locks, *owner.changes.deferred_removed}
                for message in found:
                    if message.row_id not in taken:
                        settle(message)
                        count += 1
            await owner.durable()
        return count

    async def _complete_through(self, through: int) -> int:
        """All that was planned through a number."""
        source, count = self._source, 0
        fragment, owner = source.fragment, source.owner
        while True:
            async with owner.reading:
                lease = source.lease(self._reader, self._epoch)
                last = min(through, lease.planned_through)
                found = await owner.store.outlines(
                    fragment.number, lease.planned_from, last, _PORTION
                )
                lease = source.lease(self._reader, self._epoch)
                is_over = len(found) < _PORTION
                done = last if is_over else sequence_of(found.row_ids[-1])
                staying = found.without(set(owner.changes.active_removed))
                range_settlement.complete(
                    fragment, staying, self._actor, source.now(), owner.changes
                )
                count += len(staying)
                reader_lease.settled_through(fragment, lease, done, owner.changes)
            await owner.durable()
            if is_over:
                return count

    def _row_id(self, number: int, what: str) -> int:
        return self._source.fragment.base + self._source.local(number, what)


def _portions(row_ids: Sequence[int]) -> Iterator[list[int]]:
    for at in range(0, len(row_ids), _PORTION):
        yield list(row_ids[at : at + _PORTION])
