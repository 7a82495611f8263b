"""A stream over a twinbus namespace, by positions.

    advance(start)   all messages before `start` are durably processed: settle them,
                     renew the leases, plan the next batch
    split(start, end)  the ranges of a batch, as they were planned, or planned again
                     after a restart

All durable state is in Spark's log. Kept here are only the last plan and the leases.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar
from uuid import uuid4

from twinbus.spark.bulk.client import (
    BulkClient,
    BulkSettlement,
    EntityBounds,
    Planned,
    PlanPart,
)
from twinbus.spark.bulk.errors import READER_LEASE_LOST, BulkError
from twinbus.spark.bulk.leases import Leases
from twinbus.spark.bulk.whole_plan import whole_plan
from twinbus.spark.data_loss import report_loss
from twinbus.spark.latest_offset import EntityEnd, latest_offset
from twinbus.spark.offsets import Offset, Position
from twinbus.spark.option_reader import OptionError
from twinbus.spark.packing import Range
from twinbus.spark.read_options import ReadOptions, StreamSettlement
from twinbus.spark.resting import TWINBUS_SECONDS, rest

_log = logging.getLogger(__name__)

_SPLIT_MESSAGES: Final = 5_000
_ATTEMPTS: Final = 3

T = TypeVar("T")


class BulkStream:
    """The driver's part of one query."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._client = BulkClient(options.connection, options.patience_ms)
        self._is_exclusive = options.settlement is StreamSettlement.EXCLUSIVE
        self._initial: Offset | None = None
        self._leases: Leases | None = None
        # For a query that reads what is there and ends: the end, by path.
        self._targets: dict[str, Mapping[int, int]] | None = None
        # The last plan: the batch it is for, and its ranges.
        self._planned_for: tuple[Offset, Offset] | None = None
        self._planned: list[Range] = []
        # Where the last settlement of each entity ended, and under which epoch.
        self._settled: dict[str, tuple[str, Mapping[int, int]]] = {}
        # Entities that are in the offset and are not read any more.
        self._gone: set[str] = set()
        # Losses that were reported: path, and the generation that is there instead.
        self._lost: set[tuple[str, str | None]] = set()
        # For the progress: entities as last seen, and where the last batch ended.
        self._seen: Sequence[EntityBounds] = ()
        self._reached: Offset | None = None

    # --- what Spark asks ------------------------------------------------------

    def initial(self) -> Offset:
        """Where a query without a checkpoint begins. The same for every call."""
        if self._initial is None:
            found, missing = self._runtime()
            if missing:
                raise self._unknown(missing[0])
            self._initial = Offset(
                reader=self._options.reader or uuid4().hex,
                entities={
                    entity.path: self._first_position(entity) for entity in found
                },
            )
        return self._initial

    def end_with_what_is_there(self) -> None:
        """From now on, new messages are not read."""
        # Planning reports missing entities.
        found, _ = self._runtime()
        self._targets = {entity.path: _ends(entity) for entity in found}

    def advance(self, start: Offset, max_messages: int | None) -> Offset:
        """Where the next batch ends; `start` itself if there is nothing to read."""
        start.check_namespace(is_twinbus=True)
        self._reached = self._again_if_lost(lambda: self._advance(start, max_messages))
        return self._reached

    def latest(self) -> dict[str, Any] | None:
        if self._reached is None:
            return None
        ends = [
            EntityEnd(
                path=entity.path,
                next=_ends(entity),
                active_count=sum(part.active_count for part in entity.fragments),
            )
            for entity in self._seen
        ]
        return latest_offset(ends, self._reached.entities)

    def _advance(self, start: Offset, max_messages: int | None) -> Offset:
        entities = self._entities(start)
        self._seen = entities
        if self._is_exclusive:
            self._settle(start, entities)
        parts = self._parts(start, entities, is_bounded=max_messages is None)
        planned = self._plan(parts, start.reader, max_messages)
        if not any(part.splits for part in planned):
            self._rest()
            return start
        end = _advanced(start, parts, planned, self._gone)
        self._planned_for = (start, end)
        self._planned = [found for part in planned for found in part.splits]
        return end

    def split(self, start: Offset, end: Offset) -> list[Range]:
        """The ranges of the batch between the two."""
        if self._planned_for == (start, end):
            return self._planned
        end.check_namespace(is_twinbus=True)
        return self._again_if_lost(lambda: self._split_again(start, end))

    def _split_again(self, start: Offset, end: Offset) -> list[Range]:
        """A batch from before a restart, planned again by its positions."""
        moved = {
            path: position
            for path, position in end.entities.items()
            if start.entities.get(path) != position
        }
        found, _ = self._client.runtime(list(moved))
        there = {entity.path: entity.generation for entity in found}
        for path, position in moved.items():
            if there.get(path) != position.generation:
                self._lose(path, "a batch that has to be read again", there.get(path))
        left = [path for path in moved if there.get(path) == moved[path].generation]
        if self._is_exclusive and left:
            self._lease_holder(end.reader).hold(left)
        parts = [
            PlanPart(
                path=path,
                generation=moved[path].generation,
                firsts=_firsts(start.entities.get(path), moved[path]),
                ends=moved[path].next,
                epoch=self._epoch(path),
            )
            for path in left
        ]
        planned = whole_plan(self._client, parts, end.reader)
        return [found for part in planned for found in part.splits]

    def committed(self, end: Offset) -> None:
        """Nothing is left to do: Spark plans the next batch before it calls this, and
        planning has settled all earlier batches."""

    def close(self) -> None:
        """Leases that are still held are renewed no more, and end by themselves."""
        if self._leases is not None:
            self._leases.close()
        self._client.close()

    def _again_if_lost(self, ask: Callable[[], T]) -> T:
        """An entity may be deleted, or a lease may end, between two requests. Then try
        again: the entity is reported as lost, or the lease is taken again."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return ask()
            except BulkError as error:
                if not (error.is_missing or error.is_lease_lost):
                    raise
                _log.warning("planning again: %s", error)
        return ask()

    # --- entities -------------------------------------------------------------

    def _runtime(self) -> tuple[list[EntityBounds], list[str]]:
        return self._client.runtime(self._options.entities, self._options.pattern)

    def _unknown(self, path: str) -> OptionError:
        return OptionError(
            f"'entities' names '{path}', which does not exist in "
            f"{self._client.address}, or is a topic. Make it, or name another; of a "
            "topic read a subscription: TOPIC/subscriptions/NAME."
        )

    def _entities(self, start: Offset) -> list[EntityBounds]:
        """The entities to read. Raises OptionError for a name that never existed,
        DataLoss for an entity that is gone."""
        found, missing = self._runtime()
        known = {path.lower() for path in start.entities}
        for path in missing:
            if path.lower() not in known:
                raise self._unknown(path)
        wanted = {entity.path for entity in found}
        left = [path for path in start.entities if path not in wanted]
        self._part_with(start, [path for path in left if path not in self._gone])
        # Keep a name that the options still have, to know that it existed.
        asked = {path.lower() for path in missing}
        self._gone = {path for path in left if path.lower() not in asked}
        return found

    def _part_with(self, start: Offset, paths: Sequence[str]) -> None:
        """Entities of the offset that are not read any more: they were deleted, or the
        options do not name them now."""
        if not paths:
            return
        found, missing = self._client.runtime(paths)
        for path in missing:
            self._lose(path, "this query", None)
        still = [
            entity.path
            for entity in found
            if entity.generation == start.entities[entity.path].generation
        ]
        if self._is_exclusive and still:
            leases = self._lease_holder(start.reader)
            leases.hold(still)
            self._remind(start, still)
            self._settle_before(start, still)
            leases.release(still)

    def _lose(self, path: str, reader: str, generation: str | None) -> None:
        """Report a loss. Raises DataLoss, unless failOnDataLoss is false."""
        if (path, generation) in self._lost:
            return
        state = "does not exist any more" if generation is None else "was made again"
        text = (
            f"'{path}' was read by {reader} and {state}; its messages that were not "
            "read are lost."
        )
        report_loss(text, fails=self._options.fails_on_loss)
        self._lost.add((path, generation))

    def _first_position(self, entity: EntityBounds) -> Position:
        bounds, options = self._options.bounds, self._options
        first = {
            part.index: part.next if options.starts_with_latest else part.base
            for part in entity.fragments
        }
        if bounds.from_sequence is not None:
            if len(first) > 1:
                raise OptionError(
                    f"'fromSequence' is set, and '{entity.path}' is partitioned: each "
                    "of its fragments has numbers of its own. Use 'startTime'."
                )
            first = {index: bounds.from_sequence for index in first}
        if bounds.start_time is not None:
            part = PlanPart(
                path=entity.path,
                generation=entity.generation,
                firsts={},
                from_time=bounds.start_time,
            )
            planned = self._client.plan([part], max_messages=1)
            first = {found.fragment: found.first for found in planned}
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
        """The epoch of the lease to plan with; None if the stream only browses. Raises
        BulkError if the lease is lost: then planning would be in vain."""
        if not self._is_exclusive:
            return None
        assert self._leases is not None
        epoch = self._leases.epochs().get(path)
        if epoch is None:
            raise BulkError(
                f"The lease of '{path}' is lost.", condition=READER_LEASE_LOST
            )
        return epoch

    def _settle(self, start: Offset, entities: Sequence[EntityBounds]) -> None:
        """Hold the leases, and settle all before `start`."""
        leases = self._lease_holder(start.reader)
        taken = leases.hold([entity.path for entity in entities])
        current = [
            entity.path
            for entity in entities
            if entity.path in start.entities
            and entity.generation == start.entities[entity.path].generation
        ]
        # While we did not hold the lease, the bus may have forgotten our plan. All
        # messages before `start` are processed, so settle those that are still there.
        self._remind(start, [path for path in current if path in taken])
        self._settle_before(start, current)

    def _remind(self, start: Offset, paths: Sequence[str]) -> None:
        positions = {path: start.entities[path] for path in paths}
        parts = [
            PlanPart(
                path=path,
                generation=position.generation,
                firsts=position.begin,
                ends=position.next,
                epoch=self._epoch(path),
            )
            for path, position in positions.items()
            if position.begin != position.next
        ]
        whole_plan(self._client, parts, start.reader)

    def _settle_before(self, offset: Offset, paths: Sequence[str]) -> None:
        assert self._leases is not None
        epochs = self._leases.epochs()
        ends = {path: offset.entities[path].next for path in paths if path in epochs}
        # Do not repeat a settlement: each is a commit of the bus.
        verdicts = [
            BulkSettlement(path=path, epoch=epochs[path], ends=end)
            for path, end in ends.items()
            if end != offset.entities[path].begin
            and self._settled.get(path) != (epochs[path], end)
        ]
        if verdicts:
            self._client.settle(offset.reader, verdicts)
        self._settled.update({path: (epochs[path], end) for path, end in ends.items()})

    def _rest(self) -> None:
        """Nothing is left to read. A query that reads what is there ends now, without
        telling us: its leases must not outlive it."""
        if self._targets is None:
            rest(TWINBUS_SECONDS)
        elif self._leases is not None:
            self._leases.release()

    # --- planning -------------------------------------------------------------

    def _parts(
        self, start: Offset, entities: Sequence[EntityBounds], *, is_bounded: bool
    ) -> list[PlanPart]:
        """The entities that may have something to read. `is_bounded`: only up to their
        present end, because nothing else limits the batch."""
        parts = []
        for entity in entities:
            position = start.entities.get(entity.path)
            if position is not None and position.generation != entity.generation:
                self._lose(entity.path, "this query", entity.generation)
                position = None
            ends: Mapping[int, int] = _ends(entity) if is_bounded else {}
            if self._targets is not None:
                ends = self._targets.get(entity.path, {})
                if not ends:
                    continue
            firsts = (
                {part.index: part.base for part in entity.fragments}
                if position is None
                else position.next
            )
            if any(firsts.get(p.index, p.base) < p.next for p in entity.fragments):
                parts.append(
                    PlanPart(
                        path=entity.path,
                        generation=entity.generation,
                        firsts=firsts,
                        ends=ends,
                        epoch=self._epoch(entity.path),
                    )
                )
        return parts

    def _plan(
        self, parts: Sequence[PlanPart], reader: str, max_messages: int | None
    ) -> list[Planned]:
        if not parts:
            return []
        if max_messages is None:
            return whole_plan(self._client, parts, reader)
        options = self._options
        return self._client.plan(
            parts,
            reader=reader,
            max_messages=max_messages,
            max_bytes=options.max_bytes,
            split_messages=_SPLIT_MESSAGES,
            is_aligned=options.is_aligned,
        )


def _ends(entity: EntityBounds) -> dict[int, int]:
    """The next sequence number, by fragment."""
    return {part.index: part.next for part in entity.fragments}


def _firsts(start: Position | None, end: Position) -> Mapping[int, int]:
    """Where a batch begins in an entity: where the last one ended, or where reading of
    the entity began."""
    if start is None or start.generation != end.generation:
        return end.begin
    return start.next


def _advanced(
    start: Offset,
    parts: Sequence[PlanPart],
    planned: Sequence[Planned],
    gone: Collection[str],
) -> Offset:
    """The start, moved on by the planned ranges, without entities that are gone."""
    entities: dict[str, Position] = {
        path: position for path, position in start.entities.items() if path not in gone
    }
    by_path = {part.path: part for part in parts}
    for found in planned:
        if not found.splits:
            continue
        part = by_path[found.path]
        known = entities.get(part.path)
        if known is None or known.generation != part.generation:
            known = Position(
                generation=part.generation, begin=part.firsts, next=part.firsts
            )
        following = {**known.next, found.fragment: found.end}
        entities[part.path] = replace(known, next=following)
    return replace(start, entities=entities)
