"""The store in memory: for tests, and the model that other stores are held to.

A `MemoryDisk` is what a disk would be: it keeps content and lease when the store
object that used it is gone, and two store objects may fight for it. Nothing here
can fail half way, so a commit checks first and then applies.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Final, TypeVar, final
from uuid import uuid4

from twinbus.broker.changes import (
    ChangeSet,
    FragmentRecord,
    LedgerRange,
    OutboxEntry,
    StoredRule,
)
from twinbus.broker.message import ACTIVE, DEFERRED, SCHEDULED, Message
from twinbus.broker.row_id import SEQUENCE_MASK, base_of
from twinbus.store.base import (
    PORTION_BYTES,
    CommitFailed,
    ExpiryCursor,
    LeaseLost,
    Opened,
    StoreError,
    StoreInUse,
)
from twinbus.store.memory_bodies import MemoryBodies
from twinbus.store.memory_sessions import MemorySessionStates
from twinbus.store.memory_table import MemoryTable
from twinbus.store.rows.expiry_bucket import EXPIRY_BUCKET_MS, expiry_bucket

_LAST_ROW_ID: Final = (1 << 63) - 1

Key = TypeVar("Key")
Row = TypeVar("Row")

_row_id_of = attrgetter("row_id")


@final
class MemoryDisk:
    """Content and lease."""

    def __init__(self) -> None:
        self.store_uuid: bytes = uuid4().bytes
        self.epoch: int = 0
        self.batch: int = 0
        # Who has the lease; None when nobody has.
        self.owner: str | None = None
        self.fragments: dict[int, FragmentRecord] = {}
        self.dropped: set[int] = set()
        self.bodies: MemoryBodies = MemoryBodies()
        self.active: MemoryTable = MemoryTable(ACTIVE, self.bodies)
        self.deferred: MemoryTable = MemoryTable(DEFERRED, self.bodies)
        self.scheduled: MemoryTable = MemoryTable(SCHEDULED, self.bodies)
        # Sorted: bucket and row id of active messages that will expire.
        self.expiries: list[tuple[int, int]] = []
        # Sorted: time and row id of scheduled messages.
        self.schedule: list[tuple[int, int]] = []
        self.outbox: dict[int, OutboxEntry] = {}
        # First and last of the ranges, sorted, by source and generation.
        self.ranges: dict[tuple[str, bytes], list[tuple[int, int]]] = {}
        self.session_states: MemorySessionStates = MemorySessionStates()
        # By fragment number and name, in the order in which they were put.
        self.rules: dict[tuple[int, str], StoredRule] = {}
        # When an id is to be forgotten, by fragment number and id.
        self.ids: dict[tuple[int, bytes], int] = {}
        self.operations: dict[int, bytes] = {}


@final
class MemoryStore:
    """A store that lasts as long as its disk object."""

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        self.disk: MemoryDisk = disk or MemoryDisk()
        # The epoch this object holds the lease in; 0 while it is not open.
        self._epoch: int = 0

    # --- ownership ------------------------------------------------------------

    async def open(self, owner: str, now: int) -> Opened:
        disk = self.disk
        if disk.owner is not None:
            raise StoreInUse(f"The store in memory is in use by {disk.owner}.")
        disk.owner = owner
        disk.epoch += 1
        self._epoch = disk.epoch
        return Opened(
            store_uuid=disk.store_uuid,
            epoch=disk.epoch,
            last_batch=disk.batch,
            fragments=await self.fragments(),
            purging=sorted(disk.dropped),
            next_scheduled_at=await self.next_scheduled_at(),
        )

    async def close(self) -> None:
        if self._epoch == self.disk.epoch:
            self.disk.owner = None
        self._epoch = 0

    def abandon(self) -> None:
        """Let go as the end of the process would."""
        if self._epoch == self.disk.epoch:
            self.disk.owner = None
        self._epoch = 0

    def _check_open(self) -> None:
        if self._epoch == 0:
            raise StoreError("The store in memory is not open.")

    def _check_lease(self, epoch: int) -> None:
        self._check_open()
        if epoch != self.disk.epoch:
            raise LeaseLost("The store in memory has been taken over.")

    # --- writing --------------------------------------------------------------

    async def commit(self, changes: ChangeSet) -> None:
        self._check_lease(changes.epoch)
        self._check_conflicts(changes)
        disk = self.disk
        disk.batch = changes.batch
        self._write_active(changes)
        self._write_deferred(changes)
        self._write_scheduled(changes)
        disk.bodies.write(changes)
        self._write_fragments(changes)
        for state in changes.session_states:
            disk.session_states.put(state)
        self._write_rules(changes)
        self._write_ledgers(changes)
        if not changes.log.is_empty():
            disk.operations[changes.batch] = changes.log.encode(changes.sealed_at)

    def _check_conflicts(self, changes: ChangeSet) -> None:
        disk = self.disk
        if changes.batch <= disk.batch:
            raise CommitFailed(f"Commit {changes.batch} does not follow {disk.batch}.")
        if (
            _has_conflict(disk.active, changes.active_added)
            or _has_conflict(disk.deferred, changes.deferred_added)
            or _has_conflict(disk.scheduled, changes.scheduled_added)
        ):
            raise CommitFailed("A message with that row id exists already.")
        body_ids = [body.body_id for body in changes.bodies_added]
        if len(set(body_ids)) < len(body_ids) or any(
            i in disk.bodies for i in body_ids
        ):
            raise CommitFailed("A body with that id exists already.")
        entry_ids = [entry.entry_id for entry in changes.outbox_added]
        if len(set(entry_ids)) < len(entry_ids) or any(
            entry_id in disk.outbox for entry_id in entry_ids
        ):
            raise CommitFailed("An outbox entry with that id exists already.")

    def _write_active(self, changes: ChangeSet) -> None:
        disk = self.disk
        for row_id in changes.active_removed:
            self._remove_active(row_id)
        for message in changes.active_added:
            disk.active.add(message)
            if message.expires_at != 0:
                bucket = expiry_bucket(message.expires_at, message.ttl_ms)
                insort(disk.expiries, (bucket, message.row_id))
        for message in changes.active_changed:
            disk.active.change(message)

    def _remove_active(self, row_id: int) -> None:
        removed = self.disk.active.remove(row_id)
        if removed is not None and removed.expires_at != 0:
            bucket = expiry_bucket(removed.expires_at, removed.ttl_ms)
            _discard(self.disk.expiries, (bucket, row_id))

    def _write_deferred(self, changes: ChangeSet) -> None:
        for row_id in changes.deferred_removed:
            self.disk.deferred.remove(row_id)
        for message in changes.deferred_added:
            self.disk.deferred.add(message)
        for message in changes.deferred_changed:
            self.disk.deferred.change(message)

    def _write_scheduled(self, changes: ChangeSet) -> None:
        for row_id in changes.scheduled_removed:
            self._remove_scheduled(row_id)
        for message in changes.scheduled_added:
            self.disk.scheduled.add(message)
            insort(self.disk.schedule, (message.scheduled_at, message.row_id))

    def _remove_scheduled(self, row_id: int) -> None:
        removed = self.disk.scheduled.remove(row_id)
        if removed is not None:
            _discard(self.disk.schedule, (removed.scheduled_at, row_id))

    def _write_fragments(self, changes: ChangeSet) -> None:
        disk = self.disk
        for record in changes.records:
            disk.fragments[record.number] = record
        # After the records: a fragment may be touched and dropped in one commit.
        for number in changes.dropped:
            disk.fragments.pop(number, None)
            disk.dropped.add(number)

    def _write_rules(self, changes: ChangeSet) -> None:
        rules = self.disk.rules
        for key in changes.rules_removed:
            rules.pop(key, None)
        for added in changes.rules_put:
            # Out first: one that replaces another is the last to have come.
            rules.pop((added.fragment_number, added.name), None)
            rules[added.fragment_number, added.name] = added

    def _write_ledgers(self, changes: ChangeSet) -> None:
        disk = self.disk
        for entry_id in changes.outbox_removed:
            disk.outbox.pop(entry_id, None)
        for entry in changes.outbox_added:
            disk.outbox[entry.entry_id] = entry
        for added in changes.ledger_ranges:
            key = (added.source, added.generation)
            disk.ranges[key] = _with_range(disk.ranges.get(key, []), added)
        for seen in changes.ledger_ids:
            id_key = (seen.fragment_number, seen.unique_id)
            disk.ids[id_key] = max(disk.ids.get(id_key, 0), seen.forget_at)

    async def purge(self, fragment_number: int, limit: int) -> bool:
        self._check_lease(self._epoch)
        disk = self.disk
        left = limit - self._purge_messages(fragment_number, limit)
        left -= _purge_keys(disk.ids, fragment_number, left)
        left -= disk.session_states.purge(fragment_number, left)
        left -= _purge_keys(disk.rules, fragment_number, left)
        # A body is named by a row id of its topic, whose number is in use with it.
        if left == 0 or disk.bodies.has_any_of(fragment_number):
            return False
        disk.dropped.discard(fragment_number)
        return True

    def _purge_messages(self, fragment_number: int, limit: int) -> int:
        disk = self.disk
        first, last = _rows_of(fragment_number)
        purged: list[Message] = []
        for table, remove in (
            (disk.active, self._remove_active),
            (disk.deferred, disk.deferred.remove),
            (disk.scheduled, self._remove_scheduled),
        ):
            found = list(islice(table.between(first, last), limit - len(purged)))
            for message in found:
                remove(message.row_id)
            purged += found
        for message in purged:
            if message.is_shared:
                disk.bodies.release(message.body_id)
        return len(purged)

    async def trim(self, *, operations_through: int, now: int) -> None:
        self._check_lease(self._epoch)
        disk = self.disk
        for batch in [b for b in disk.operations if b <= operations_through]:
            del disk.operations[batch]
        for key in [k for k, at in disk.ids.items() if at <= now]:
            del disk.ids[key]

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
        first, last = _rows_of(fragment_number, after + 1)
        return _portion(self.disk.active.between(first, last), limit, limit_bytes)

    async def read_deferred(self, row_ids: list[int]) -> list[Message]:
        self._check_open()
        return _found(self.disk.deferred, row_ids)

    async def read_scheduled(self, row_ids: list[int]) -> list[Message]:
        self._check_open()
        return _found(self.disk.scheduled, row_ids)

    async def browse(
        self, fragment_number: int, from_sequence: int, limit: int, limit_bytes: int
    ) -> list[Message]:
        self._check_open()
        disk = self.disk
        first, last = _rows_of(fragment_number, from_sequence)
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
        first, _ = _rows_of(fragment_number, after + 1)
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
        first, _ = _rows_of(fragment_number, from_sequence)
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

    async def due(self, now: int, limit: int) -> list[Message]:
        self._check_open()
        schedule = self.disk.schedule
        row_ids = schedule[: bisect_right(schedule, (now, _LAST_ROW_ID))][:limit]
        messages = _found(self.disk.scheduled, [row_id for _, row_id in row_ids])
        return _portion(messages, limit, PORTION_BYTES)

    async def next_scheduled_at(self) -> int:
        self._check_open()
        return self.disk.schedule[0][0] if self.disk.schedule else 0

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

    async def outbox(self, limit: int) -> list[OutboxEntry]:
        self._check_open()
        return [entry for _, entry in sorted(self.disk.outbox.items())[:limit]]

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


def _rows_of(fragment_number: int, from_sequence: int = 0) -> tuple[int, int]:
    base = base_of(fragment_number)
    return base + from_sequence, base + SEQUENCE_MASK


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
    messages = (table.get(row_id) for row_id in row_ids)
    return [message for message in messages if message is not None]


def _has_conflict(table: MemoryTable, added: list[Message]) -> bool:
    row_ids = [message.row_id for message in added]
    return len(set(row_ids)) < len(row_ids) or any(i in table for i in row_ids)


def _purge_keys(table: dict[tuple[int, Key], Row], number: int, limit: int) -> int:
    """Remove up to `limit` entries of a fragment; returns how many."""
    keys = [key for key in table if key[0] == number][:limit]
    for key in keys:
        del table[key]
    return len(keys)


def _discard(entries: list[tuple[int, int]], entry: tuple[int, int]) -> None:
    at = bisect_left(entries, entry)
    assert entries[at] == entry, "the order has lost a row"
    del entries[at]


def _with_range(
    ranges: list[tuple[int, int]], added: LedgerRange
) -> list[tuple[int, int]]:
    """The ranges with one more, joined with those it overlaps or adjoins."""
    first, last = added.first, added.last
    apart = []
    for other in ranges:
        if other[1] < added.first - 1 or added.last + 1 < other[0]:
            apart.append(other)
        else:
            first, last = min(first, other[0]), max(last, other[1])
    return sorted([*apart, (first, last)])
