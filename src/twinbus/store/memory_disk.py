"""What the store in memory keeps, and how a change set is written to it.

A change set is checked first and then applied, so that it cannot fail half way. The
lease is kept here, but checked by the store.
"""

from bisect import bisect_left, insort
from itertools import islice
from typing import Protocol, TypeVar, final
from uuid import uuid4

from twinbus.broker.changes import (
    ChangeSet,
    FragmentRecord,
    LedgerRange,
    OutboxEntry,
    ReaderLease,
    StoredEntity,
    StoredRule,
)
from twinbus.broker.message import ACTIVE, DEFERRED, SCHEDULED, Message
from twinbus.broker.row_id import SEQUENCE_MASK, base_of
from twinbus.store.base import CommitFailed
from twinbus.store.memory_bodies import MemoryBodies
from twinbus.store.memory_sessions import MemorySessionStates
from twinbus.store.memory_table import MemoryTable, copy_of
from twinbus.store.rows.expiry_bucket import expiry_bucket

Key = TypeVar("Key")
Row = TypeVar("Row")


@final
class MemoryDisk:
    """Content and lease."""

    def __init__(self, lease_term_ms: int = 0, name: str = "") -> None:
        # Tells several of one bus apart.
        self.name: str = name
        # 0: a lease ends when it is given back.
        self.lease_term_ms: int = lease_term_ms
        # With a term: others may take the lease from then on.
        self.lease_ends_at: int = 0
        self.store_uuid: bytes = uuid4().bytes
        self.epoch: int = 0
        self.batch: int = 0
        # Who has the lease; None: it is free.
        self.owner: str | None = None
        self.fragments: dict[int, FragmentRecord] = {}
        self.dropped: set[int] = set()
        # By generation.
        self.entities: dict[bytes, StoredEntity] = {}
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
        # By fragment number.
        self.reader_leases: dict[int, ReaderLease] = {}
        # When an id is to be forgotten, by fragment number and id.
        self.ids: dict[tuple[int, bytes], int] = {}
        self.operations: dict[int, bytes] = {}

    # --- a commit -------------------------------------------------------------

    def write(self, changes: ChangeSet) -> None:
        """All of the change set, or nothing. Raises CommitFailed."""
        self._check_conflicts(changes)
        active_moved = self._with_bytes(changes.active_moved)
        deferred_moved = self._with_bytes(changes.deferred_moved)
        self.batch = changes.batch
        self._write_active(changes)
        self._write_deferred(changes)
        self._write_scheduled(changes)
        for message in active_moved:
            self._add_active(message)
        for message in deferred_moved:
            self.deferred.add(message)
        self.bodies.write(changes)
        self._write_fragments(changes)
        for state in changes.session_states:
            self.session_states.put(state)
        self._write_rules(changes)
        self._write_reader_leases(changes)
        self._write_ledgers(changes)
        if not changes.log.is_empty():
            self.operations[changes.batch] = changes.log.encode(changes.sealed_at)

    def _check_conflicts(self, changes: ChangeSet) -> None:
        if changes.batch <= self.batch:
            raise CommitFailed(f"Commit {changes.batch} does not follow {self.batch}.")
        if (
            _has_conflict(self.active, _ids(changes.active_added, changes.active_moved))
            or _has_conflict(
                self.deferred, _ids(changes.deferred_added, changes.deferred_moved)
            )
            or _has_conflict(
                self.scheduled, [m.row_id for m in changes.scheduled_added]
            )
        ):
            raise CommitFailed("A message with that row id exists already.")
        if _has_conflict(self.bodies, [body.body_id for body in changes.bodies_added]):
            raise CommitFailed("A body with that id exists already.")
        if _has_conflict(self.outbox, [e.entry_id for e in changes.outbox_added]):
            raise CommitFailed("An outbox entry with that id exists already.")

    def _write_active(self, changes: ChangeSet) -> None:
        for row_id in changes.active_removed:
            self._remove_active(row_id)
        for message in changes.active_added:
            self._add_active(message)
        for message in changes.active_changed:
            self.active.change(message)

    def _add_active(self, message: Message) -> None:
        self.active.add(message)
        if message.expires_at != 0:
            bucket = expiry_bucket(message.expires_at, message.ttl_ms)
            insort(self.expiries, (bucket, message.row_id))

    def _with_bytes(self, moved: list[Message]) -> list[Message]:
        """Copies with the bytes of the rows that they come from. Raises
        CommitFailed."""
        copies: list[Message] = []
        for message in moved:
            at = message.copied_from
            source = self.active.get(at) or self.deferred.get(at)
            if source is None:
                raise CommitFailed("A message that moves has no bytes in the store.")
            copies.append(copy_of(message))
            copies[-1].raw = source.raw
        return copies

    def _remove_active(self, row_id: int) -> None:
        removed = self.active.remove(row_id)
        if removed is not None and removed.expires_at != 0:
            bucket = expiry_bucket(removed.expires_at, removed.ttl_ms)
            _discard(self.expiries, (bucket, row_id))

    def _write_deferred(self, changes: ChangeSet) -> None:
        for row_id in changes.deferred_removed:
            self.deferred.remove(row_id)
        for message in changes.deferred_added:
            self.deferred.add(message)
        for message in changes.deferred_changed:
            self.deferred.change(message)

    def _write_scheduled(self, changes: ChangeSet) -> None:
        for row_id in changes.scheduled_removed:
            self._remove_scheduled(row_id)
        for message in changes.scheduled_added:
            self.scheduled.add(message)
            insort(self.schedule, (message.scheduled_at, message.row_id))

    def _remove_scheduled(self, row_id: int) -> None:
        removed = self.scheduled.remove(row_id)
        if removed is not None:
            _discard(self.schedule, (removed.scheduled_at, row_id))

    def _write_fragments(self, changes: ChangeSet) -> None:
        for record in changes.records:
            self.fragments[record.number] = record
        # After the records: a fragment may be touched and dropped in one commit.
        for number in changes.dropped:
            self.fragments.pop(number, None)
            self.dropped.add(number)
        for entity in changes.entities_put:
            self.entities[entity.generation] = entity
        for generation in changes.entities_removed:
            self.entities.pop(generation, None)

    def _write_rules(self, changes: ChangeSet) -> None:
        rules = self.rules
        for key in changes.rules_removed:
            rules.pop(key, None)
        for added in changes.rules_put:
            # Out first: one that replaces another is the last to have come.
            rules.pop((added.fragment_number, added.name), None)
            rules[added.fragment_number, added.name] = added

    def _write_reader_leases(self, changes: ChangeSet) -> None:
        for lease in changes.reader_leases:
            self.reader_leases[lease.fragment_number] = lease
        for number in changes.dropped:
            self.reader_leases.pop(number, None)

    def _write_ledgers(self, changes: ChangeSet) -> None:
        for entry_id in changes.outbox_removed:
            self.outbox.pop(entry_id, None)
        for entry in changes.outbox_added:
            self.outbox[entry.entry_id] = entry
        for added in changes.ledger_ranges:
            key = (added.source, added.generation)
            self.ranges[key] = _with_range(self.ranges.get(key, []), added)
        for seen in changes.ledger_ids:
            id_key = (seen.fragment_number, seen.unique_id)
            self.ids[id_key] = max(self.ids.get(id_key, 0), seen.forget_at)

    # --- clearing up ----------------------------------------------------------

    def purge(self, fragment_number: int, limit: int) -> bool:
        """Remove up to `limit` rows of a dropped fragment; True when none is left."""
        left = limit - self._purge_messages(fragment_number, limit)
        left -= _purge_keys(self.ids, fragment_number, left)
        left -= self.session_states.purge(fragment_number, left)
        left -= _purge_keys(self.rules, fragment_number, left)
        # A body is named by a row id of its topic, whose number is in use with it.
        if left == 0 or self.bodies.has_any_of(fragment_number):
            return False
        self.dropped.discard(fragment_number)
        return True

    def _purge_messages(self, fragment_number: int, limit: int) -> int:
        first, last = rows_of(fragment_number)
        purged: list[Message] = []
        for table, remove in (
            (self.active, self._remove_active),
            (self.deferred, self.deferred.remove),
            (self.scheduled, self._remove_scheduled),
        ):
            found = list(islice(table.between(first, last), limit - len(purged)))
            for message in found:
                remove(message.row_id)
            purged += found
        for message in purged:
            if message.is_shared:
                self.bodies.release(message.body_id)
        return len(purged)

    def trim(self, operations_through: int, now: int, limit: int) -> bool:
        """Forget old operations and up to `limit` ids; True when none is left."""
        for batch in [b for b in self.operations if b <= operations_through]:
            del self.operations[batch]
        old = [key for key, forget_at in self.ids.items() if forget_at <= now]
        for key in old[:limit]:
            del self.ids[key]
        return len(old) < limit


def rows_of(fragment_number: int, from_sequence: int = 0) -> tuple[int, int]:
    """The first and the last row id that a fragment can have from there on."""
    base = base_of(fragment_number)
    return base + from_sequence, base + SEQUENCE_MASK


def _ids(added: list[Message], moved: list[Message]) -> list[int]:
    return [message.row_id for message in (*added, *moved)]


class _Keyed(Protocol):
    def __contains__(self, key: int, /) -> bool: ...


def _has_conflict(existing: _Keyed, added: list[int]) -> bool:
    return len(set(added)) < len(added) or any(key in existing for key in added)


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
