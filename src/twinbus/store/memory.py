"""The store in memory: for tests, and the model that other stores are held to.

A `MemoryDisk` is what a disk would be: it keeps content and lease when the store
object that used it is gone, and two store objects may fight for it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Final, final

from twinbus.broker.changes import (
    ChangeSet,
    FragmentRecord,
    OutboxEntry,
    ReaderLease,
    StoredEntity,
    StoredRule,
)
from twinbus.broker.fragment_settings import NO_LIMIT
from twinbus.broker.message import Message
from twinbus.broker.outbox import OutboxTotal
from twinbus.broker.outline import Outlines
from twinbus.broker.row_id import base_of, fragment_number_of
from twinbus.store.base import (
    PORTION_BYTES,
    TRIMMED_IDS,
    ExpiryCursor,
    LeaseLost,
    Opened,
    StoreError,
    WindowRefill,
)
from twinbus.store.memory_disk import MemoryDisk, rows_of
from twinbus.store.memory_lease import MemoryLease
from twinbus.store.memory_table import MemoryTable
from twinbus.store.refill_portions import read_portions
from twinbus.store.rows.expiry_bucket import EXPIRY_BUCKET_MS

__all__ = ["MemoryDisk", "MemoryStore"]

_LAST_ROW_ID: Final = (1 << 63) - 1

_row_id_of = attrgetter("row_id")


@final
class MemoryStore:
    """A store that lasts as long as its disk object."""

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        self.disk: MemoryDisk = disk or MemoryDisk()
        self.lease: MemoryLease = MemoryLease(self.disk)

    @property
    def location(self) -> str:
        return f"the store in memory {self.disk.name}".rstrip()

    # --- ownership ------------------------------------------------------------

    async def load(self) -> Opened:
        disk = self.disk
        return Opened(
            store_uuid=disk.store_uuid,
            epoch=self.lease.epoch,
            last_batch=disk.batch,
            fragments=await self.fragments(),
            purging=sorted(disk.dropped),
            next_scheduled_at=await self.next_scheduled_at(),
        )

    async def close(self) -> None:
        await self.lease.give_back()

    def abandon(self) -> None:
        """Let go as the end of the process would."""
        self.lease.let_go()

    def _check_open(self) -> None:
        if self.lease.epoch == 0:
            raise StoreError("The store in memory is not open.")

    def _check_lease(self, epoch: int) -> None:
        self._check_open()
        if epoch != self.disk.epoch:
            raise LeaseLost("The store in memory has been taken over.")

    # --- writing --------------------------------------------------------------

    async def commit(self, changes: ChangeSet) -> None:
        self._check_lease(changes.epoch)
        self.disk.write(changes)

    async def purge(self, fragment_number: int, limit: int) -> bool:
        self._check_lease(self.lease.epoch)
        return self.disk.purge(fragment_number, limit)

    async def trim(
        self, *, operations_through: int, now: int, limit: int = TRIMMED_IDS
    ) -> bool:
        self._check_lease(self.lease.epoch)
        return self.disk.trim(operations_through, now, limit)

    async def room(self) -> int:
        return NO_LIMIT

    # --- reading --------------------------------------------------------------

    async def last_batch(self) -> int:
        self._check_open()
        return self.disk.batch

    async def fragments(self) -> list[FragmentRecord]:
        self._check_open()
        return [record for _, record in sorted(self.disk.fragments.items())]

    async def read_active(
        self, fragment_number: int, after: int, limit: int, limit_bytes: int
    ) -> list[Message]:
        self._check_open()
        first, last = rows_of(fragment_number, after + 1)
        return _portion(self.disk.active.between(first, last), limit, limit_bytes)

    async def read_refills(
        self, refills: Sequence[WindowRefill], limit: int, limit_bytes: int
    ) -> list[list[Message]]:
        self._check_open()
        return read_portions(self._read_refill, refills, limit, limit_bytes)

    def _read_refill(
        self, refill: WindowRefill, limit: int, limit_bytes: int
    ) -> list[Message]:
        number, session_id = refill.fragment_number, refill.session_id
        first, last = rows_of(number, refill.after + 1)
        active = self.disk.active
        if session_id is None:
            return _portion(active.between(first, last), limit, limit_bytes)
        found = active.of_session(number, session_id, first)
        return _portion(found, limit, limit_bytes)

    async def count_active(self, fragment_number: int) -> int:
        self._check_open()
        first, last = rows_of(fragment_number, 0)
        return sum(1 for _ in self.disk.active.between(first, last))

    async def outlines(
        self, fragment_number: int, first: int, last: int, limit: int
    ) -> Outlines:
        self._check_open()
        base, outlines = base_of(fragment_number), Outlines()
        found = self.disk.active.between(base + first, base + last)
        for message in islice(found, limit):
            outlines.add(
                message.row_id,
                message.enqueued_at,
                len(message.raw),
                message.body_id if message.is_shared else 0,
                message.uid,
                message.body_id,
            )
        return outlines

    async def read_numbered(self, row_ids: list[int]) -> list[Message]:
        self._check_open()
        return _found(self.disk.active, row_ids)

    async def reader_leases(self) -> list[ReaderLease]:
        self._check_open()
        return [lease for _, lease in sorted(self.disk.reader_leases.items())]

    async def browse_deferred(
        self, fragment_number: int, from_sequence: int, limit: int, limit_bytes: int
    ) -> list[Message]:
        self._check_open()
        first, last = rows_of(fragment_number, from_sequence)
        return _portion(self.disk.deferred.between(first, last), limit, limit_bytes)

    async def read_deferred(self, row_ids: list[int]) -> list[Message]:
        self._check_open()
        return _found(self.disk.deferred, row_ids)

    async def deferred_bytes(self, row_ids: list[int]) -> int:
        found = await self.read_deferred(row_ids)
        return sum(message.size_bytes() for message in found)

    async def read_scheduled(self, row_ids: list[int]) -> list[Message]:
        self._check_open()
        return _found(self.disk.scheduled, row_ids)

    async def browse(
        self, fragment_number: int, from_sequence: int, limit: int, limit_bytes: int
    ) -> list[Message]:
        self._check_open()
        disk = self.disk
        first, last = rows_of(fragment_number, from_sequence)
        tables = (disk.active, disk.deferred, disk.scheduled)
        ordered = merge(
            *(table.between(first, last) for table in tables), key=_row_id_of
        )
        return _portion(ordered, limit, limit_bytes)

    async def read_session(
        self,
        fragment_number: int,
        session_id: str,
        after: int,
        limit: int,
        limit_bytes: int,
    ) -> list[Message]:
        self._check_open()
        first, _ = rows_of(fragment_number, after + 1)
        found = self.disk.active.of_session(fragment_number, session_id, first)
        return _portion(found, limit, limit_bytes)

    async def browse_session(
        self,
        fragment_number: int,
        session_id: str,
        from_sequence: int,
        limit: int,
        limit_bytes: int,
    ) -> list[Message]:
        self._check_open()
        disk = self.disk
        first, _ = rows_of(fragment_number, from_sequence)
        tables = (disk.active, disk.deferred, disk.scheduled)
        found = (t.of_session(fragment_number, session_id, first) for t in tables)
        return _portion(merge(*found, key=_row_id_of), limit, limit_bytes)

    async def active_sessions(
        self, fragment_number: int, after: str | None, limit: int
    ) -> list[str]:
        self._check_open()
        return self.disk.active.sessions.ids(fragment_number, after, limit)

    async def sessions(
        self, fragment_number: int, after: str | None, limit: int
    ) -> list[str]:
        active = await self.active_sessions(fragment_number, after, limit)
        with_state = await self.sessions_updated(fragment_number, -1, after, limit)
        return sorted({*active, *with_state})[:limit]

    async def sessions_updated(
        self, fragment_number: int, since: int, after: str | None, limit: int
    ) -> list[str]:
        self._check_open()
        return self.disk.session_states.updated(fragment_number, since, after, limit)

    async def session_state(
        self, fragment_number: int, session_id: str
    ) -> bytes | None:
        self._check_open()
        return self.disk.session_states.get(fragment_number, session_id)

    async def rules(self) -> list[StoredRule]:
        self._check_open()
        return sorted(
            self.disk.rules.values(), key=attrgetter("fragment_number", "created_at")
        )

    async def entities(self) -> list[StoredEntity]:
        self._check_open()
        return list(self.disk.entities.values())

    async def due(
        self, now: int, limit: int, without: Sequence[int] = ()
    ) -> list[Message]:
        self._check_open()
        schedule = self.disk.schedule
        past = schedule[: bisect_right(schedule, (now, _LAST_ROW_ID))]
        row_ids = [row_id for _, row_id in past if _is_of_others(row_id, without)]
        messages = _found(self.disk.scheduled, row_ids[:limit])
        return _portion(messages, limit, PORTION_BYTES)

    async def next_scheduled_at(self, without: Sequence[int] = ()) -> int:
        self._check_open()
        for at, row_id in self.disk.schedule:
            if _is_of_others(row_id, without):
                return at
        return 0

    async def expired(
        self, now: int, after: ExpiryCursor, limit: int
    ) -> tuple[list[Message], ExpiryCursor]:
        self._check_open()
        expiries = self.disk.expiries
        # A message expires at `expires_at`, so a bucket is past with its last one.
        current_bucket = (now + 1) // EXPIRY_BUCKET_MS
        begin = bisect_right(expiries, (after.bucket, after.row_id))
        end = bisect_left(expiries, (current_bucket, -_LAST_ROW_ID - 1))
        past = expiries[begin:end][:limit]
        found = _found(self.disk.active, [row_id for _, row_id in past])
        messages = _portion(found, limit, PORTION_BYTES)
        if not messages:
            return [], ExpiryCursor()
        bucket, row_id = past[len(messages) - 1]
        return messages, ExpiryCursor(bucket=bucket, row_id=row_id)

    async def outbox(
        self,
        limit: int,
        *,
        lane: str = "",
        after: int = 0,
        limit_bytes: int = NO_LIMIT,
    ) -> list[OutboxEntry]:
        self._check_open()
        found: list[OutboxEntry] = []
        size_bytes = 0
        for entry_id, entry in sorted(self.disk.outbox.items()):
            if len(found) == limit or size_bytes >= limit_bytes:
                break
            if entry_id > after and entry.target.startswith(lane):
                found.append(entry)
                size_bytes += len(entry.raw)
        return found

    async def outbox_totals(self) -> list[OutboxTotal]:
        self._check_open()
        sizes: dict[tuple[str, bytes], list[int]] = {}
        for entry in self.disk.outbox.values():
            sizes.setdefault((entry.target, entry.origin), []).append(len(entry.raw))
        return [
            OutboxTotal(
                target=target,
                origin=origin,
                entry_count=len(found),
                size_bytes=sum(found),
            )
            for (target, origin), found in sizes.items()
        ]

    async def restored(
        self, source: str, generation: bytes, sequences: list[int]
    ) -> set[int]:
        self._check_open()
        ranges = self.disk.ranges.get((source, generation), [])
        return {
            sequence
            for sequence in sequences
            if any(first <= sequence <= last for first, last in ranges)
        }

    async def seen(
        self, fragment_number: int, unique_ids: list[bytes], now: int
    ) -> set[bytes]:
        self._check_open()
        forget_at = self.disk.ids
        return {i for i in unique_ids if forget_at.get((fragment_number, i), 0) > now}

    async def operations(self, after_batch: int, limit: int) -> list[tuple[int, bytes]]:
        self._check_open()
        blobs = sorted(self.disk.operations.items())
        return [item for item in blobs if item[0] > after_batch][:limit]


def _is_of_others(row_id: int, fragment_numbers: Sequence[int]) -> bool:
    return fragment_number_of(row_id) not in fragment_numbers


def _portion(
    messages: Iterable[Message], limit: int, limit_bytes: int
) -> list[Message]:
    portion = []
    size_bytes = 0
    for message in islice(messages, limit):
        portion.append(message)
        size_bytes += len(message.raw)
        if size_bytes >= limit_bytes:
            break
    return portion


def _found(table: MemoryTable, row_ids: list[int]) -> list[Message]:
    # Each once, however often it is named.
    messages = (table.get(row_id) for row_id in dict.fromkeys(row_ids))
    return [message for message in messages if message is not None]
