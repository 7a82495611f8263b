"""What a PostgreSQL store reads: one statement for each operation.

What the owner reads goes over its own connection. What may run beside a commit has
another one. Limits of bytes are kept by the server: a thousand large messages are not
to come over the network for the sake of the first few.
"""

from collections.abc import Sequence
from typing import Any, Final

from twinbus.broker.changes import (
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
from twinbus.store.postgres_connection import SQL, PostgresConnection
from twinbus.store.postgres_errors import unreadable
from twinbus.store.postgres_session import Rows, Step
from twinbus.store.refill_portions import read_portions
from twinbus.store.rows.expiry_bucket import EXPIRY_BUCKET_MS
from twinbus.store.rows.postgres_rows import (
    bigints,
    bucket_of_row,
    byteas,
    messages_of,
)
from twinbus.store.rows.sqlite_rows import BodyMissing, outlines_of

_COUNT_SECONDS: Final = 60.0
"""Counting a backlog takes its time; it is done when a message seems to be missing."""


class PostgresReads:
    """Of a store that is reached over one pair of connections."""

    def __init__(self, connection: PostgresConnection) -> None:
        self._server: PostgresConnection = connection

    # --- for the owner --------------------------------------------------------

    async def read_active(
        self, fragment_number: int, after: int, limit: int, limit_bytes: int
    ) -> list[Message]:
        names = _behind_row(fragment_number, after, limit, limit_bytes)
        return self._messages(await self._server.rows("read_active", names))

    async def read_refills(
        self, refills: Sequence[WindowRefill], limit: int, limit_bytes: int
    ) -> list[list[Message]]:
        steps = [_refill_step(refill, limit, limit_bytes) for refill in refills]
        answers = iter(await self._server.answers(steps))

        def portion(refill: WindowRefill, count: int, size_bytes: int) -> list[Message]:
            return _cut(self._messages(next(answers)), count, size_bytes)

        return read_portions(portion, refills, limit, limit_bytes)

    async def count_active(self, fragment_number: int) -> int:
        base = base_of(fragment_number)
        rows = await self._server.rows(
            "count_active", (base, base + SEQUENCE_MASK), _COUNT_SECONDS
        )
        count: int = rows[0][0]
        return count

    async def outlines(
        self, fragment_number: int, first: int, last: int, limit: int
    ) -> Outlines:
        if last < first:
            return Outlines()
        base = base_of(fragment_number)
        rows = await self._server.rows("outlines", (base + first, base + last, limit))
        try:
            return outlines_of(rows)
        except BodyMissing as error:
            raise unreadable(self._server.location, str(error)) from error

    async def read_numbered(self, row_ids: list[int]) -> list[Message]:
        return self._messages(
            await self._server.rows("read_numbered", [bigints(row_ids)])
        )

    async def reader_leases(self) -> list[ReaderLease]:
        return [_reader_lease(row) for row in await self._server.rows("reader_leases")]

    async def browse_deferred(
        self, fragment_number: int, from_sequence: int, limit: int, limit_bytes: int
    ) -> list[Message]:
        names = _from_row(fragment_number, from_sequence, limit, limit_bytes)
        return self._messages(await self._server.rows("browse_deferred", names))

    async def read_deferred(self, row_ids: list[int]) -> list[Message]:
        return self._messages(
            await self._server.rows("read_deferred", [bigints(row_ids)])
        )

    async def deferred_bytes(self, row_ids: list[int]) -> int:
        rows = await self._server.rows("deferred_bytes", [bigints(row_ids)])
        size_bytes: int = rows[0][0]
        return size_bytes

    async def read_scheduled(self, row_ids: list[int]) -> list[Message]:
        return self._messages(
            await self._server.rows("read_scheduled", [bigints(row_ids)])
        )

    async def read_session(
        self,
        fragment_number: int,
        session_id: str,
        after: int,
        limit: int,
        limit_bytes: int,
    ) -> list[Message]:
        names = _behind_row(fragment_number, after, limit, limit_bytes)
        names |= _session(fragment_number, session_id)
        return self._messages(await self._server.rows("read_session", names))

    async def active_sessions(
        self, fragment_number: int, after: str | None, limit: int
    ) -> list[str]:
        names = _sessions_behind(fragment_number, after, limit)
        return _texts(await self._server.rows("active_sessions", names))

    async def rules(self) -> list[StoredRule]:
        return [
            StoredRule(
                fragment_number=number,
                name=name.decode(),
                definition=definition.decode(),
                created_at=created_at,
            )
            for number, name, definition, created_at in await self._server.rows("rules")
        ]

    async def entities(self) -> list[StoredEntity]:
        return [
            StoredEntity(generation=generation, definition=definition)
            for generation, definition in await self._server.rows("entities")
        ]

    # --- what time has brought ------------------------------------------------

    async def due(
        self, now: int, limit: int, without: Sequence[int] = ()
    ) -> list[Message]:
        names = {
            "now": now,
            "without": bigints([_row_prefix(number) for number in without]),
            "limit": limit,
            "limit_bytes": PORTION_BYTES,
        }
        return self._messages(await self._server.rows("due", names))

    async def next_scheduled_at(self, without: Sequence[int] = ()) -> int:
        prefixes = bigints([_row_prefix(number) for number in without])
        at: int = (await self._server.rows("next_scheduled_at", [prefixes]))[0][0]
        return at

    async def expired(
        self, now: int, after: ExpiryCursor, limit: int
    ) -> tuple[list[Message], ExpiryCursor]:
        names = {
            "bucket": after.bucket,
            "row_id": after.row_id,
            # A message expires at `expires_at`, so a bucket is past with its last one.
            "current_bucket": (now + 1) // EXPIRY_BUCKET_MS,
            "limit": limit,
            "limit_bytes": PORTION_BYTES,
        }
        rows = await self._server.rows("expired", names)
        if not rows:
            return [], ExpiryCursor()
        messages = self._messages(rows)
        return messages, ExpiryCursor(
            bucket=bucket_of_row(rows[-1]), row_id=messages[-1].row_id
        )

    # --- ledgers --------------------------------------------------------------

    async def outbox(
        self,
        limit: int,
        *,
        lane: str = "",
        after: int = 0,
        limit_bytes: int = NO_LIMIT,
    ) -> list[OutboxEntry]:
        names = {
            "after": after,
            "lane": lane.encode(),
            "limit": limit,
            "limit_bytes": limit_bytes,
        }
        return [
            OutboxEntry(
                entry_id=entry_id, target=target.decode(), raw=raw, origin=origin
            )
            for entry_id, target, raw, origin in await self._server.rows(
                "outbox", names
            )
        ]

    async def outbox_totals(self) -> list[OutboxTotal]:
        return [
            OutboxTotal(
                target=target.decode(),
                origin=origin,
                entry_count=count,
                size_bytes=size_bytes,
            )
            for target, origin, count, size_bytes in await self._server.rows(
                "outbox_totals", ()
            )
        ]

    async def restored(
        self, source: str, generation: bytes, sequences: list[int]
    ) -> set[int]:
        names = {
            "source": source.encode(),
            "generation": generation,
            "sequences": bigints(sequences),
        }
        return {number for (number,) in await self._server.rows("restored", names)}

    async def seen(
        self, fragment_number: int, unique_ids: list[bytes], now: int
    ) -> set[bytes]:
        asked = (fragment_number, byteas(unique_ids), now)
        return {found for (found,) in await self._server.rows("seen", asked)}

    async def operations(self, after_batch: int, limit: int) -> list[tuple[int, bytes]]:
        rows = await self._server.rows("operations", (after_batch, limit))
        return [(batch, operations) for batch, operations in rows]

    # --- beside a commit ------------------------------------------------------

    async def browse(
        self, fragment_number: int, from_sequence: int, limit: int, limit_bytes: int
    ) -> list[Message]:
        names = _from_row(fragment_number, from_sequence, limit, limit_bytes)
        return self._messages(await self._server.beside("browse", names))

    async def browse_session(
        self,
        fragment_number: int,
        session_id: str,
        from_sequence: int,
        limit: int,
        limit_bytes: int,
    ) -> list[Message]:
        names = _from_row(fragment_number, from_sequence, limit, limit_bytes)
        names |= _session(fragment_number, session_id)
        return self._messages(await self._server.beside("browse_session", names))

    async def sessions(
        self, fragment_number: int, after: str | None, limit: int
    ) -> list[str]:
        names = _sessions_behind(fragment_number, after, limit)
        active = _texts(await self._server.beside("active_sessions", names))
        with_state = await self.sessions_updated(fragment_number, -1, after, limit)
        # Bytes of UTF-8 are in the same order as the characters.
        return sorted({*active, *with_state})[:limit]

    async def sessions_updated(
        self, fragment_number: int, since: int, after: str | None, limit: int
    ) -> list[str]:
        names = _sessions_behind(fragment_number, after, limit)
        names |= {"number": fragment_number, "since": since}
        return _texts(await self._server.beside("sessions_updated", names))

    async def session_state(
        self, fragment_number: int, session_id: str
    ) -> bytes | None:
        key = (fragment_number, session_id.encode())
        rows = await self._server.beside("session_state", key)
        return rows[0][0] if rows else None

    def _messages(self, rows: Rows) -> list[Message]:
        try:
            return messages_of(rows)
        except BodyMissing as error:
            raise unreadable(self._server.location, str(error)) from error


def _cut(messages: list[Message], count: int, size_bytes: int) -> list[Message]:
    """No more than so many, and no more once they have so many bytes."""
    found = []
    for message in messages[:count]:
        if size_bytes <= 0:
            break
        found.append(message)
        size_bytes -= len(message.raw)
    return found


def _refill_step(refill: WindowRefill, limit: int, limit_bytes: int) -> Step:
    names = _behind_row(
        refill.fragment_number,
        refill.after,
        min(refill.limit, limit),
        min(refill.limit_bytes, limit_bytes),
    )
    if refill.session_id is None:
        return SQL["read_active"], names
    return SQL["read_session"], names | _session(
        refill.fragment_number, refill.session_id
    )


def _behind_row(
    fragment_number: int, after: int, limit: int, limit_bytes: int
) -> dict[str, Any]:
    base = base_of(fragment_number)
    return {
        "after": base + after,
        "last": base + SEQUENCE_MASK,
        "limit": limit,
        "limit_bytes": min(limit_bytes, NO_LIMIT),
    }


def _from_row(
    fragment_number: int, from_sequence: int, limit: int, limit_bytes: int
) -> dict[str, Any]:
    base = base_of(fragment_number)
    return {
        "first": base + from_sequence,
        "last": base + SEQUENCE_MASK,
        "limit": limit,
        "limit_bytes": min(limit_bytes, NO_LIMIT),
    }


def _session(fragment_number: int, session_id: str) -> dict[str, Any]:
    return {
        "row_prefix": _row_prefix(fragment_number),
        "session_id": session_id.encode(),
    }


def _sessions_behind(
    fragment_number: int, after: str | None, limit: int
) -> dict[str, Any]:
    return {
        "row_prefix": _row_prefix(fragment_number),
        # The first id that comes after one, in the order of their bytes.
        "from": b"" if after is None else after.encode() + b"\0",
        "limit": limit,
    }


def _texts(rows: Rows) -> list[str]:
    return [text.decode() for (text,) in rows]


def _row_prefix(fragment_number: int) -> int:
    """What the row ids of the fragment begin with."""
    return base_of(fragment_number) >> SEQUENCE_BITS


def _reader_lease(row: Sequence[Any]) -> ReaderLease:
    return ReaderLease(
        fragment_number=row[0],
        reader=row[1].decode(),
        epoch=row[2],
        duration_ms=row[3],
        expires_at=row[4],
        planned_from=row[5],
        planned_through=row[6],
    )
