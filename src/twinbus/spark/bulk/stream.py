"""A stream over a twinbus namespace: what Spark asks a source, answered with positions.

    advance(start)   what lies before `start` is durably processed: settle it, renew the
                     leases, plan what comes next
    split(start, end)  the ranges of a batch, as they were planned, or planned again
                     after a restart

State that matters is in Spark's log alone; what is kept here is the last plan, and the
leases.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final
from uuid import uuid4

from twinbus.spark.bulk.client import (
    BulkClient,
    EntityBounds,
    Planned,
    PlanPart,
    Verdict,
)
from twinbus.spark.bulk.errors import BulkError
from twinbus.spark.bulk.leases import Leases
from twinbus.spark.offsets import Offset, Position
from twinbus.spark.packing import Range
from twinbus.spark.ranges_read import DataLoss
from twinbus.spark.read_options import ReadOptions, Settlement

_log = logging.getLogger(__name__)

_SPLIT_MESSAGES: Final = 5_000
_MAX_PLAN_MESSAGES: Final = 1_000_000


class BulkStream:
    """The driver's part of one query."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._client = BulkClient(options.connection, options.patience_ms)
        self._is_exclusive = options.settlement is Settlement.EXCLUSIVE
        self._initial: Offset | None = None
        self._leases: Leases | None = None
        # Of a query that ends with what is there: where that ends, by path.
        self._targets: dict[str, Mapping[int, int]] | None = None
        # The last plan: the batch it is for, and its ranges.
        self._planned_for: tuple[Offset, Offset] | None = None
        self._planned: list[Range] = []

    # --- what Spark asks ------------------------------------------------------

    def initial(self) -> Offset:
        """Where a query without a checkpoint begins. The same for every call."""
        if self._initial is None:
            entities = self._entities()
            self._initial = Offset(
                reader=self._options.reader or uuid4().hex,
                entities={
                    entity.path: self._first_position(entity) for entity in entities
                },
            )
        return self._initial

    def end_with_what_is_there(self) -> None:
        """Nothing that comes from now on is read."""
        self._targets = {
            entity.path: {part.index: part.next for part in entity.fragments}
            for entity in self._entities()
        }

    def advance(self, start: Offset, max_messages: int | None) -> Offset:
        """Where the next batch ends; `start` itself if there is nothing to read."""
        entities = self._entities()
        self._check_vanished(start, entities)
        if self._is_exclusive:
            self._settle(start, entities)
        parts = self._parts(start, entities)
        planned = self._plan(parts, start.reader, max_messages)
        end = _advanced(start, parts, planned)
        if end == start:
            self._rest()
            return start
        self._planned_for = (start, end)
        self._planned = [found for part in planned for found in part.splits]
        return end

    def split(self, start: Offset, end: Offset) -> list[Range]:
        """The ranges of the batch between the two."""
        if self._planned_for == (start, end):
            return self._planned
        if self._is_exclusive:
            self._lease_holder(end.reader).hold(list(end.entities))
        parts = [
            PlanPart(
                path=path,
                generation=position.generation,
                firsts=_firsts(start.entities.get(path), position),
                ends=position.next,
                epoch=self._epoch(path),
            )
            for path, position in end.entities.items()
            if start.entities.get(path) != position
        ]
        try:
            planned = self._plan_everything(parts, end.reader)
        except BulkError as error:
            if not error.is_missing:
                raise
            raise DataLoss(f"A batch cannot be read again: {error}") from None
        return [found for part in planned for found in part.splits]

    def committed(self, end: Offset) -> None:
        """Spark has planned another batch since: settle, should it not be yet."""
        if self._is_exclusive and self._leases is not None:
            self._settle_before(end, list(self._leases.epochs()))

    # --- entities -------------------------------------------------------------

    def _entities(self) -> list[EntityBounds]:
        """Those that are to be read and exist. Raises BulkError for a name that
        does not."""
        options = self._options
        found, missing = self._client.runtime(options.entities, options.pattern)
        if missing:
            raise BulkError(
                f"'{missing[0]}' does not exist in {self._client.address}, or is a "
                "topic. Make it, or change the option 'entities'; of a topic read a "
                "subscription.",
                condition="amqp:not-found",
            )
        return found

    def _check_vanished(self, start: Offset, entities: Sequence[EntityBounds]) -> None:
        there = {entity.path for entity in entities}
        for path in start.entities:
            if path not in there and self._options.fails_on_loss:
                raise DataLoss(
                    f"'{path}' was read by this query and does not exist any more; "
                    "what it had that was not read is lost. Set failOnDataLoss to "
                    "false to go on without it."
                )

    def _first_position(self, entity: EntityBounds) -> Position:
        bounds, options = self._options.bounds, self._options
        first = {
            part.index: part.next if options.starts_with_latest else _base(part.next)
            for part in entity.fragments
        }
        if bounds.from_sequence is not None:
            first = {index: bounds.from_sequence for index in first}
        if bounds.start_time is not None:
            part = PlanPart(
                path=entity.path,
                generation=entity.generation,
                firsts={},
                from_time=bounds.start_time,
            )
            [planned] = self._client.plan([part], max_messages=1)
            first = {planned.fragment: planned.first}
        return Position(generation=entity.generation, begin=first, next=first)

    # --- leases and settlement ------------------------------------------------

    def _lease_holder(self, reader: str) -> Leases:
        if self._leases is None:
            options = self._options
            self._leases = Leases(
                self._client,
                options.connection,
                reader,
                options.lease_ms,
                options.lease_wait_ms,
            )
        return self._leases

    def _epoch(self, path: str) -> str | None:
        return None if self._leases is None else self._leases.epochs().get(path)

    def _settle(self, start: Offset, entities: Sequence[EntityBounds]) -> None:
        """Hold the leases, and settle all before `start`."""
        leases = self._lease_holder(start.reader)
        by_path = {entity.path: entity for entity in entities}
        taken = leases.hold(list(by_path))
        # A lease that was not ours meanwhile may have forgotten what we had planned;
        # whatever of it is still there has been processed.
        self._remind(start, [path for path in taken if path in start.entities])
        current = [
            path
            for path, position in start.entities.items()
            if path in by_path and by_path[path].generation == position.generation
        ]
        self._settle_before(start, current)

    def _remind(self, start: Offset, paths: Sequence[str]) -> None:
        parts = []
        for path in paths:
            position = start.entities[path]
            if position.begin != position.next:
                parts.append(
                    PlanPart(
                        path=path,
                        generation=position.generation,
                        firsts=position.begin,
                        ends=position.next,
                        epoch=self._epoch(path),
                    )
                )
        try:
            self._plan_everything(parts, start.reader)
        except BulkError as error:
            if not error.is_missing:
                raise

    def _settle_before(self, offset: Offset, paths: Sequence[str]) -> None:
        assert self._leases is not None
        epochs = self._leases.epochs()
        verdicts = [
            Verdict(path=path, epoch=epochs[path], ends=offset.entities[path].next)
            for path in paths
            if path in epochs and path in offset.entities
        ]
        if verdicts:
            self._client.settle(offset.reader, verdicts)

    def _rest(self) -> None:
        """Nothing is left to be read. A query that ends with what was there is over,
        and tells nobody: its leases must not outlive it."""
        if self._targets is not None and self._leases is not None:
            self._leases.release()

    # --- planning -------------------------------------------------------------

    def _parts(self, start: Offset, entities: Sequence[EntityBounds]) -> list[PlanPart]:
        parts = []
        for entity in entities:
            position = start.entities.get(entity.path)
            if position is not None and position.generation != entity.generation:
                self._on_replaced(entity.path)
                position = None
            firsts = (
                {part.index: _base(part.next) for part in entity.fragments}
                if position is None
                else position.next
            )
            part = PlanPart(
                path=entity.path,
                generation=entity.generation,
                firsts=firsts,
                epoch=self._epoch(entity.path),
            )
            if self._targets is not None:
                target = self._targets.get(entity.path)
                if target is None:
                    continue
                part = replace(part, ends=target)
            parts.append(part)
        return parts

    def _on_replaced(self, path: str) -> None:
        text = (
            f"'{path}' was deleted and made again since this query last read it; what "
            "it had that was not read is lost."
        )
        if self._options.fails_on_loss:
            raise DataLoss(
                f"{text} Set failOnDataLoss to false to go on with the new one."
            )
        _log.warning(text)

    def _plan(
        self, parts: Sequence[PlanPart], reader: str, max_messages: int | None
    ) -> list[Planned]:
        if not parts:
            return []
        if max_messages is None:
            return self._plan_everything(parts, reader)
        options = self._options
        return self._client.plan(
            parts,
            reader=reader,
            max_messages=max_messages,
            max_bytes=options.max_bytes,
            split_messages=_SPLIT_MESSAGES,
            is_aligned=options.is_aligned,
        )

    def _plan_everything(self, parts: Sequence[PlanPart], reader: str) -> list[Planned]:
        """All there is, in as many requests as that takes."""
        found: dict[str, Planned] = {}
        left = list(parts)
        while left:
            planned = self._client.plan(
                left,
                reader=reader,
                max_messages=_MAX_PLAN_MESSAGES,
                split_messages=_SPLIT_MESSAGES,
                is_aligned=False,
            )
            following = []
            for part, more in zip(left, planned, strict=True):
                known = found.get(part.path)
                found[part.path] = more if known is None else _joined(known, more)
                if more.splits:
                    firsts = {**part.firsts, more.fragment: more.end}
                    following.append(replace(part, firsts=firsts))
            left = following
        return [found[part.path] for part in parts]


def _base(number: int) -> int:
    """The lowest number of the fragment that a number belongs to."""
    return number >> 48 << 48


def _firsts(start: Position | None, end: Position) -> Mapping[int, int]:
    """Where a batch begins in an entity: where the one before ended, or where the
    reading of it began."""
    if start is None or start.generation != end.generation:
        return end.begin
    return start.next


def _joined(known: Planned, more: Planned) -> Planned:
    return replace(known, end=more.end, splits=[*known.splits, *more.splits])


def _advanced(
    start: Offset, parts: Sequence[PlanPart], planned: Sequence[Planned]
) -> Offset:
    """The start, moved on where something was planned."""
    entities: dict[str, Position] = dict(start.entities)
    for part, found in zip(parts, planned, strict=True):
        if not found.splits:
            continue
        known = entities.get(part.path)
        if known is None or known.generation != part.generation:
            known = Position(
                generation=part.generation, begin=part.firsts, next=part.firsts
            )
        following = {**known.next, found.fragment: found.end}
        entities[part.path] = replace(known, next=following)
    return replace(start, entities=entities)
