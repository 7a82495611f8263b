"""What keeps segments in order: the next one begun, empty ones truncated, sparse ones
emptied.

All of it is done by the owner between two commits, a little at a time. Nothing here may
cost a message or fail a commit. So a segment is looked through once more before it is
truncated, under the lock and the fence, and what cannot be done now is done later.
"""

import logging
from typing import Final, final

from psycopg import errors

from twinbus.store.base import StoreError
from twinbus.store.postgres_connection import SQL, PostgresConnection
from twinbus.store.postgres_segments import SEGMENT_BYTES, SegmentedTable, TableSegment

_log = logging.getLogger(__name__)

_JOURNAL_BYTES: Final = 8 << 20
"""What a new owner reads at most, beside the table of fragments."""

_MOVED_ROWS: Final = 2_000
"""Moved at once: some 10 ms."""

_COUNTED_ROWS: Final = 20_000
_LOADED_ROW_BYTES: Final = 400
"""What a row is taken for in a segment that was there before."""


@final
class SegmentUpkeep:
    """Of all segmented tables of one store."""

    def __init__(
        self, connection: PostgresConnection, segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        self._connection = connection
        self.message = SegmentedTable("message", "row_id", segment_bytes)
        self.shared_body = SegmentedTable("shared_body", "body_id", segment_bytes)
        self.body_use = SegmentedTable("body_use", "body_id", segment_bytes)
        self.journal = SegmentedTable(
            "journal", "batch", min(_JOURNAL_BYTES, segment_bytes)
        )
        # Those whose rows come and go; the journal is trimmed from its end.
        self._emptied = (self.message, self.shared_body, self.body_use)
        # Where emptying a sparse segment goes on.
        self._moved_through = -(1 << 63)

    # --- the current ones -----------------------------------------------------

    async def learn(self) -> None:
        """What is there. Raises StoreError."""
        found: dict[str, list[TableSegment]] = {}
        for parent, name, oid, heap_bytes, size in await self._connection.rows(
            "segments"
        ):
            segment = TableSegment(name, oid, size, size // _LOADED_ROW_BYTES, None)
            if heap_bytes == 0:
                segment = TableSegment(name, oid)
            found.setdefault(parent, []).append(segment)
        for table in (*self._emptied, self.journal):
            table.learn(found.get(table.parent, []))

    async def make_room(self, table: SegmentedTable) -> bool:
        """Go on to another segment if the current one is full; True if so."""
        if not table.is_full():
            return False
        table.begin(table.take_free() or await self._make(table.parent))
        return True

    async def _make(self, parent: str) -> TableSegment:
        connection = self._connection
        async with connection.fenced() as session:
            number = len(await session.rows(SQL["segments"])) + 1
            # The epoch is part of the name: nobody else makes one of the same.
            name = f"{parent}_{connection.epoch}_{number}"
            make = SQL["make_segment"].replace("{parent}", parent)
            await session.rows(make.replace("{segment}", name))
            oid = SQL["segment_oid"].replace("{segment}", name)
            ((found,),) = await session.rows(oid)
        return TableSegment(name, found)

    def removed(self, oid: int, count: int) -> None:
        for table in self._emptied:
            table.removed(oid, count)

    def forget_counts(self) -> None:
        for table in self._emptied:
            table.forget_counts()

    # --- between commits ------------------------------------------------------

    async def after_commit(self) -> None:
        """Do one thing that is to be done. Raises nothing that a commit would."""
        for table in self._emptied:
            table.count_commit()
        try:
            for table in self._emptied:
                if (empty := table.next_empty()) is not None:
                    await self._truncate(table, empty)
                    return
                if (sparse := table.next_sparse()) is not None:
                    await self._move(table, sparse)
                    return
        except StoreError as error:
            _log.warning("clearing up the store is put off: %s", error)

    async def _truncate(
        self, table: SegmentedTable, segment: TableSegment, must_be_empty: bool = True
    ) -> None:
        try:
            async with self._connection.fenced() as session:
                await session.rows(
                    SQL["lock_segment"].replace("{segment}", segment.name)
                )
                # Dead rows are not looked up one by one.
                await session.rows("SET LOCAL enable_seqscan = on")
                is_empty = SQL["is_empty"].replace("{segment}", segment.name)
                ((found,),) = await session.rows(is_empty)
                may_go = found or not must_be_empty
                if may_go:
                    truncate = SQL["truncate_segment"]
                    await session.rows(truncate.replace("{segment}", segment.name))
            if may_go:
                table.truncated(segment)
            else:
                segment.live_count = None
        except StoreError as error:
            if not isinstance(error.__cause__, errors.LockNotAvailable):
                raise
            _log.info("%s is being read, and is truncated later", segment.name)
            table.pin(segment)

    async def _move(self, table: SegmentedTable, segment: TableSegment) -> None:
        """A portion of what is left goes to the current segment."""
        await self.make_room(table)
        target = table.current
        assert target is not None
        statement = SQL["empty_segment"].replace("{segment}", segment.name)
        statement = statement.replace("{target}", target.name)
        statement = statement.replace("{key}", table.key)
        async with self._connection.fenced() as session:
            rows = await session.rows(statement, (self._moved_through, _MOVED_ROWS))
        average_bytes = segment.added_bytes // max(1, segment.added_count)
        target.add(len(rows), len(rows) * average_bytes)
        segment.remove(len(rows))
        if len(rows) == _MOVED_ROWS:
            self._moved_through = max(key for (key,) in rows)
        else:
            segment.live_count, self._moved_through = 0, -(1 << 63)

    async def trim(self, journal_through: int) -> None:
        """Count what is not counted, and truncate what the journal needs no more.
        Raises StoreError."""
        for table in self._emptied:
            if (segment := table.next_uncounted()) is not None:
                await self._count(segment)
        for segment in self.journal.closed():
            statement = SQL["last_of_journal"].replace("{segment}", segment.name)
            async with self._connection.fenced() as session:
                ((last,),) = await session.rows(statement)
            if last <= journal_through:
                await self._truncate(self.journal, segment, must_be_empty=False)

    async def _count(self, segment: TableSegment) -> None:
        statement = SQL["count_segment"].replace("{segment}", segment.name)
        async with self._connection.fenced() as session:
            ((count,),) = await session.rows(statement, (_COUNTED_ROWS,))
        if count < _COUNTED_ROWS:
            segment.live_count = count
