"""The backlog queues of a pair, for the driver: their state, leases and settlement."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar

from twinbus.spark.bulk.client import BulkClient, BulkSettlement, EntityBounds
from twinbus.spark.bulk.errors import BulkError
from twinbus.spark.bulk.leases import Leases
from twinbus.spark.syphon.errors import LeaseGone
from twinbus.spark.syphon.options import SyphonOptions
from twinbus.spark.syphon.parked import Parked

_NUMBERS: Final = 5_000
_DEAD_LETTERS: Final = 200
"""Of one request: each of them has texts."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogSnapshot:
    """A backlog queue at one moment."""

    path: str
    generation: str
    created_at: int
    # The number of the next message; of several fragments in the last one.
    next: int
    # The number of the first active message. None if there is none, or if the queue has
    # several fragments: each of them has a first one.
    first: int | None
    active_count: int
    deferred_count: int
    # Of our lease; None if we hold none.
    epoch: str | None


@dataclass(slots=True)
class BacklogSettlement:
    """How to settle messages of one queue."""

    defer: list[int] = field(default_factory=list)
    complete: list[int] = field(default_factory=list)
    # Number, reason, description.
    dead_letter: list[tuple[int, str, str]] = field(default_factory=list)


Look = Mapping[str, BacklogSnapshot]

Bounds = dict[str, tuple[int, int]]
"""The first and the last number of a range, by queue."""


class Backlog:
    """The queues at the secondary. Not shared between threads."""

    def __init__(self, options: SyphonOptions, reader: str) -> None:
        self.reader = reader
        self._options = options
        connection = options.connection("secondary")
        self._client = BulkClient(connection, options.timeout_ms)
        # For the time when no stream holds the leases; it does not wait for others.
        self._leases = Leases(self._client, connection, reader, options.lease_ms, 0)
        self.name = options.secondary_name or self._client.host.lower()

    def close(self) -> None:
        self._client.close()

    def look(self) -> Look:
        """The queues as they are now, by path. Raises BulkError."""
        found, _ = self._client.runtime(pattern=self._options.pattern)
        if not found:
            # A pattern finds only what the key allows; by name, a refusal is an error.
            self._client.runtime([self._options.first_queue])
        return {
            entity.path: self._queue(entity)
            for entity in found
            if self._options.is_backlog_queue(entity.path)
        }

    def _queue(self, entity: EntityBounds) -> BacklogSnapshot:
        parts = entity.fragments
        leases = {(part.lease_reader, part.lease_epoch) for part in parts}
        reader, epoch = leases.pop()
        # A lease covers all fragments, or it is lost.
        is_ours = reader == self.reader and not leases
        return BacklogSnapshot(
            path=entity.path,
            generation=entity.generation,
            created_at=entity.created_at,
            next=parts[-1].next,
            first=parts[0].first if len(parts) == 1 else None,
            active_count=sum(part.active_count for part in parts),
            deferred_count=sum(part.deferred_count for part in parts),
            epoch=epoch if is_ours else None,
        )

    @contextmanager
    def held(self, paths: Sequence[str]) -> Iterator[bool]:
        """Hold the leases that no stream holds, and renew them meanwhile. Returns
        whether we have them; we do not while another reader works on the backlog."""
        try:
            self._leases.hold(paths)
        except BulkError as error:
            if not (error.is_lease_held or error.is_missing):
                raise
            yield False
            return
        try:
            yield True
        finally:
            self._leases.release()

    def release(self, look: Look) -> None:
        """Give back leases that a stream of ours took and does not need any more."""
        held = {path: q.epoch for path, q in look.items() if q.epoch is not None}
        if held:
            self._client.release(self.reader, held)

    def settle(self, look: Look, settlements: Mapping[str, BacklogSettlement]) -> None:
        """Raises LeaseGone if we have lost the lease of a queue."""
        for path, settlement in settlements.items():
            queue = look.get(path)
            if queue is None or queue.epoch is None:
                raise LeaseGone(f"The lease of '{path}' was lost.")
            for verdict in _portions(path, queue.epoch, settlement):
                self._settle(verdict)

    def _settle(self, verdict: BulkSettlement) -> None:
        try:
            self._client.settle(self.reader, [verdict])
        except BulkError as error:
            if error.is_lease_lost or error.is_missing:
                raise LeaseGone(str(error)) from None
            raise


def passed_bounds(look: Look, parked: Parked) -> Bounds:
    """Where unknown deferred messages can be: before the first active message, because
    no syphon has been further. A queue of several fragments is read as a whole: only
    its deferred messages cost time."""
    return {
        path: (0, queue.next if queue.first is None else queue.first)
        for path, queue in look.items()
        if queue.deferred_count != parked.count_in(path)
    }


def other_bounds(look: Look, parked: Parked) -> Bounds:
    """Where else they can be."""
    return {
        path: (queue.first, queue.next)
        for path, queue in look.items()
        if queue.first is not None and queue.deferred_count != parked.count_in(path)
    }


def _portions(
    path: str, epoch: str, settlement: BacklogSettlement
) -> Iterator[BulkSettlement]:
    """Split a settlement into requests."""
    for poison in _slices(settlement.dead_letter, _DEAD_LETTERS):
        yield BulkSettlement(path=path, epoch=epoch, dead_letter=poison)
    # In the order of the queue, which is then kept even if this ends half-way.
    for numbers in _slices(sorted(settlement.defer), _NUMBERS):
        yield BulkSettlement(path=path, epoch=epoch, defer=numbers)
    for numbers in _slices(settlement.complete, _NUMBERS):
        yield BulkSettlement(path=path, epoch=epoch, complete=numbers)


def _slices(items: list[T], size: int) -> Iterator[list[T]]:
    for at in range(0, len(items), size):
        yield items[at : at + size]
