"""What a SQLite store reads: one statement for each operation.

An embedded store has one connection, and answers without suspending. So its reads
never run beside a commit, and those of `StoreReader` need no connection of their own.
Where syncs are apart, those wait for the one under way.
"""

import json
from collections.abc import Sequence
from typing import Any

from twinbus.broker.changes import (
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
from twinbus.broker.row_id import SEQUENCE_BITS, SEQUENCE_MASK, base_of
from twinbus.store.base import PORTION_BYTES, ExpiryCursor, WindowRefill
from twinbus.store.refill_portions import read_portions
from twinbus.store.rows.expiry_bucket import EXPIRY_BUCKET_MS
from twinbus.store.rows.sqlite_rows import BodyMissing, outlines_of
from twinbus.store.sqlite_connection import SqliteConnection
from twinbus.store.sqlite_errors import unreadable
from twinbus.store.sqlite_fragments import fragment_record


class SqliteReads:
    """Of a store that is reached over one connection."""

    def __init__(self, connection: SqliteConnection) -> None:
        self._file: SqliteConnection = connection

    async def fragments(self) -> list[FragmentRecord]:
        return self.fragment_records()

    def fragment_records(self) -> list[FragmentRecord]:
        return [fragment_record(row) for row in self._file.rows("fragments")]

    async def read_active(
        self, fragment_number: int, after: int, limit: int, limit_bytes: int
    ) -> list[Message]:
        base = base_of(fragment_number)
        return self._file.messages(
            "read_active", (base + after, base + SEQUENCE_MASK, limit), limit_bytes
        )

    async def read_refills(
        self, refills: Sequence[WindowRefill], limit: int, limit_bytes: int
    ) -> list[list[Message]]:
        return read_portions(self._read_refill, refills, limit, limit_bytes)

    def _read_refill(
        self, refill: WindowRefill, limit: int, limit_bytes: int
    ) -> list[Message]:
        base, session_id = base_of(refill.fragment_number), refill.session_id
        if session_id is None:
            rows = (base + refill.after, base + SEQUENCE_MASK, limit)
            return self._file.messages("read_active", rows, limit_bytes)
        names = {
            "row_prefix": base >> SEQUENCE_BITS,
            "session_id": session_id,
            "after": base + refill.after,
            "limit": limit,
        }
        return self._file.messages("read_session", names, limit_bytes)

    async def count_active(self, fragment_number: int) -> int:
        base = base_of(fragment_number)
        count: int = self._file.rows("count_active", (base, base + SEQUENCE_MASK))[0][0]
        return count

    async def outlines(
        self, fragment_number: int, first: int, last: int, limit: int
    ) -> Outlines:
        if last < first:
            return Outlines()  # below the first row of a store there is no number
        base = base_of(fragment_number)
        rows = self._file.rows("outlines", (base + first, base + last, limit))
        try:
            return outlines_of(rows)
        except BodyMissing as error:
            raise unreadable(self._file.path, str(error)) from error

    async def read_numbered(self, row_ids: list[int]) -> list[Message]:
        return self._file.messages("read_numbered", (json.dumps(row_ids),))

    async def reader_leases(self) -> list[ReaderLease]:
        return [_reader_lease(row) for row in self._file.rows("reader_leases")]

    async def browse_deferred(
        self, fragment_number: int, from_sequence: int, limit: int, limit_bytes: int
    ) -> list[Message]:
        base = base_of(fragment_number)
        rows = (base + from_sequence, base + SEQUENCE_MASK, limit)
        return self._file.messages("browse_deferred", rows, limit_bytes)

    async def read_deferred(self, row_ids: list[int]) -> list[Message]:
        return self._file.messages("read_deferred", (json.dumps(row_ids),))

    async def deferred_bytes(self, row_ids: list[int]) -> int:
        size: int = self._file.rows("deferred_bytes", (json.dumps(row_ids),))[0][0]
        return size

    async def read_scheduled(self, row_ids: list[int]) -> list[Message]:
        return self._file.messages("read_scheduled", (json.dumps(row_ids),))

    async def browse(
        self, fragment_number: int, from_sequence: int, limit: int, limit_bytes: int
    ) -> list[Message]:
        await self._file.settled()
        base = base_of(fragment_number)
        names = {
            "first": base + from_sequence,
            "last": base + SEQUENCE_MASK,
            "limit": limit,
        }
        return self._file.messages("browse", names, limit_bytes)

    async def read_session(
        self,
        fragment_number: int,
        session_id: str,
        after: int,
        limit: int,
        limit_bytes: int,
    ) -> list[Message]:
        names = {
            "row_prefix": _row_prefix(fragment_number),
            "session_id": session_id,
            "after": base_of(fragment_number) + after,
            "limit": limit,
        }
        return self._file.messages("read_session", names, limit_bytes)

    async def browse_session(
        self,
        fragment_number: int,
        session_id: str,
        from_sequence: int,
        limit: int,
        limit_bytes: int,
    ) -> list[Message]:
        await self._file.settled()
        names = {
            "row_prefix": _row_prefix(fragment_number),
            "session_id": session_id,
            "first": base_of(fragment_number) + from_sequence,
            "limit": limit,
        }
        return self._file.messages("browse_session", names, limit_bytes)

    async def active_sessions(
        self, fragment_number: int, after: str | None, limit: int
    ) -> list[str]:
        names = {
            "row_prefix": _row_prefix(fragment_number),
            "from": _behind(after),
            "limit": limit,
        }
        return [
            session_id for (session_id,) in self._file.rows("active_sessions", names)
        ]

    async def sessions(
        self, fragment_number: int, after: str | None, limit: int
    ) -> list[str]:
        await self._file.settled()
        active = await self.active_sessions(fragment_number, after, limit)
        with_state = await self.sessions_updated(fragment_number, -1, after, limit)
        # SQLite compares the bytes of texts, Python their characters: in UTF-8 that
        # is the same order.
        return sorted({*active, *with_state})[:limit]

    async def sessions_updated(
        self, fragment_number: int, since: int, after: str | None, limit: int
    ) -> list[str]:
        await self._file.settled()
        parameters = (fragment_number, _behind(after), since, limit)
        rows = self._file.rows("sessions_updated", parameters)
        return [session_id for (session_id,) in rows]

    async def session_state(
        self, fragment_number: int, session_id: str
    ) -> bytes | None:
        await self._file.settled()
        rows = self._file.rows("session_state", (fragment_number, session_id))
        return rows[0][0] if rows else None

    async def rules(self) -> list[StoredRule]:
        return [
            StoredRule(
                fragment_number=fragment_number,
                name=name,
                definition=definition,
                created_at=created_at,
            )
            for fragment_number, name, definition, created_at in self._file.rows(
                "rules"
            )
        ]

    async def entities(self) -> list[StoredEntity]:
        return self.stored_entities()

    def stored_entities(self) -> list[StoredEntity]:
        return [
            StoredEntity(generation=generation, definition=definition)
            for generation, definition in self._file.rows("entities")
        ]

    async def due(
        self, now: int, limit: int, without: Sequence[int] = ()
    ) -> list[Message]:
        if not without:
            return self._file.messages("due", (now, limit), PORTION_BYTES)
        prefixes = _row_prefixes(without)
        return self._file.messages("due_without", (now, prefixes, limit), PORTION_BYTES)

    async def next_scheduled_at(self, without: Sequence[int] = ()) -> int:
        if without:
            rows = self._file.rows(
                "next_scheduled_at_without", (_row_prefixes(without),)
            )
        else:
            rows = self._file.rows("next_scheduled_at")
        at: int = rows[0][0]
        return at

    async def expired(
        self, now: int, after: ExpiryCursor, limit: int
    ) -> tuple[list[Message], ExpiryCursor]:
        # A message expires at `expires_at`, so a bucket is past with its last one.
        current_bucket = (now + 1) // EXPIRY_BUCKET_MS
        names = {
            "bucket": after.bucket,
            "row_id": after.row_id,
            "current_bucket": current_bucket,
            "limit": limit,
        }
        messages = self._file.messages("expired", names, PORTION_BYTES)
        if not messages:
            return [], ExpiryCursor()
        row_id = messages[-1].row_id
        bucket = self._file.rows("expiry_bucket", (row_id,))[0][0]
        return messages, ExpiryCursor(bucket=bucket, row_id=row_id)

    async def outbox(
        self,
        limit: int,
        *,
        lane: str = "",
        after: int = 0,
        limit_bytes: int = NO_LIMIT,
    ) -> list[OutboxEntry]:
        names = {"after": after, "lane": lane, "limit": limit}
        return self._file.outbox_entries(names, limit_bytes)

    async def outbox_totals(self) -> list[OutboxTotal]:
        return [
            OutboxTotal(
                target=target, origin=origin, entry_count=count, size_bytes=size
            )
            for target, origin, count, size in self._file.rows("outbox_totals", ())
        ]

    async def restored(
        self, source: str, generation: bytes, sequences: list[int]
    ) -> set[int]:
        found = set()
        for sequence in sequences:
            rows = self._file.rows("range_before", (source, generation, sequence))
            if rows and sequence <= rows[0][0]:
                found.add(sequence)
        return found

    async def seen(
        self, fragment_number: int, unique_ids: list[bytes], now: int
    ) -> set[bytes]:
        return {
            unique_id
            for unique_id in unique_ids
            if self._file.rows("has_ledger_id", (fragment_number, unique_id, now))
        }

    async def operations(self, after_batch: int, limit: int) -> list[tuple[int, bytes]]:
        return self._file.rows("operations", (after_batch, limit))


def _reader_lease(row: Sequence[Any]) -> ReaderLease:
    return ReaderLease(
        fragment_number=row[0],
        reader=row[1],
        epoch=row[2],
        duration_ms=row[3],
        expires_at=row[4],
        planned_from=row[5],
        planned_through=row[6],
    )


def _row_prefix(fragment_number: int) -> int:
    """What the row ids of the fragment begin with."""
    return base_of(fragment_number) >> SEQUENCE_BITS


def _row_prefixes(fragment_numbers: Sequence[int]) -> str:
    """A JSON array of them."""
    return json.dumps([_row_prefix(number) for number in fragment_numbers])


def _behind(session_id: str | None) -> str:
    """The first id that comes after one, in the order of their bytes."""
    return "" if session_id is None else f"{session_id}\0"
