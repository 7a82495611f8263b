"""The store in a PostgreSQL database: one schema, written by one broker at a time.

A commit is one round trip: a transaction whose first statement is the fence, and a row
in the journal. It locks the row of the lease, and finds none when somebody else has
become the owner. What is lost with a connection is found out over the next one.

This file commits. `postgres_changes.py` knows what a commit writes,
`postgres_segments.py` where, `postgres_journal.py` how counters are kept,
`postgres_lease.py` who may write, `postgres_reads.py` what is read and
`postgres_errors.py` what PostgreSQL's errors mean. Every statement is in
`sql/postgres_store.sql`; [decision 0014] says why.
"""

from typing import Final, final

from twinbus.broker.changes import ChangeSet, FragmentRecord
from twinbus.store.base import TRIMMED_IDS, CommitFailed, CommitUnknown, Opened
from twinbus.store.export_position import may_trim
from twinbus.store.postgres_changes import CommitSteps, CurrentSegments
from twinbus.store.postgres_connection import SQL, PostgresConnection
from twinbus.store.postgres_errors import ServerLost, as_unknown, lease_lost
from twinbus.store.postgres_format import FORMAT
from twinbus.store.postgres_journal import (
    UnwrittenRecords,
    encode_records,
    fragment_record,
    record_columns,
)
from twinbus.store.postgres_lease import PostgresLease
from twinbus.store.postgres_lease_watch import PROCESS_WATCH, LeaseWatch
from twinbus.store.postgres_purge import PostgresPurge
from twinbus.store.postgres_reads import PostgresReads
from twinbus.store.postgres_room import PostgresRoom
from twinbus.store.postgres_segments import SEGMENT_BYTES
from twinbus.store.postgres_session import PostgresSession, Rows, Step
from twinbus.store.postgres_survey import survey_schema
from twinbus.store.postgres_upkeep import SegmentUpkeep
from twinbus.store.postgres_url import PostgresUrl, parse_postgres_url
from twinbus.store.survey import Survey

__all__ = ["FORMAT", "PostgresStore"]

DEFAULT_SCHEMA: Final = "twinbus"

_ASKED_AGAIN: Final = 5
"""How often the last commit is asked for while connections are lost at once."""


@final
class PostgresStore(PostgresReads):
    """A store in a schema, which is made when it is first opened."""

    def __init__(
        self,
        url: PostgresUrl | str,
        *,
        watch: LeaseWatch = PROCESS_WATCH,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        if isinstance(url, str):
            url = parse_postgres_url(url, DEFAULT_SCHEMA)
        super().__init__(PostgresConnection(url))
        self.lease: PostgresLease = PostgresLease(self._server, watch)
        self._segments = SegmentUpkeep(self._server, segment_bytes)
        self._purge = PostgresPurge(self._segments)
        self._room = PostgresRoom(url.max_bytes)
        self._unwritten = UnwrittenRecords()
        # The table of fragments is as of this commit.
        self._fragments_through = 0
        self._last_batch = 0
        # Nobody knows whether the last commit happened.
        self._is_in_doubt = False

    @property
    def location(self) -> str:
        return self._server.location

    # --- ownership ------------------------------------------------------------

    async def load(self) -> Opened:
        store_uuid, epoch = await self._learn_batch()
        await self._segments.learn()
        return Opened(
            store_uuid=store_uuid,
            epoch=epoch,
            last_batch=self._last_batch,
            fragments=await self.fragments(),
            purging=[
                number for (number,) in await self._server.rows("dropped_fragments")
            ],
            next_scheduled_at=await self.next_scheduled_at(),
        )

    async def _learn_batch(self) -> tuple[bytes, int]:
        """Which commit was the last; the uuid of the store, and the epoch."""
        rows = await self._server.rows("identity")
        store_uuid, epoch, _, self._last_batch, self._fragments_through, _ = rows[0]
        return store_uuid, epoch

    async def fragments(self) -> list[FragmentRecord]:
        blobs, table = await self._server.answers(
            [(SQL["journal_records"], ()), (SQL["fragments"], ())]
        )
        self._unwritten.learn(blob for (blob,) in blobs)
        return self._unwritten.over(fragment_record(row) for row in table)

    async def survey(self) -> Survey:
        """What is in the schema, which stays as it is. Raises StoreError."""
        return await survey_schema(self._server.url)

    async def close(self) -> None:
        await self.lease.give_back()

    async def abandon(self) -> None:
        """Let go without giving the lease back, as the end of the process would."""
        await self.lease.abandon()

    # --- writing --------------------------------------------------------------

    async def commit(self, changes: ChangeSet) -> None:
        server = self._server
        server.check_open()
        if changes.epoch != server.epoch:
            raise lease_lost(self.location)
        if changes.batch <= self._last_batch:
            raise CommitFailed(
                f"{self.location}: commit {changes.batch} does not follow "
                f"{self._last_batch}."
            )
        if self._is_in_doubt:
            await self.last_batch()
        fence = await server.ready()
        writes_fragments = await self._make_room(changes)
        written = CommitSteps(self._current(changes))
        written.write(changes)
        before = [self._journal_step(changes, fence)]
        before += self._fragment_steps(changes) if writes_fragments else []
        try:
            answers = await server.transaction([*before, *written.steps])
        except CommitUnknown:
            self._is_in_doubt = True
            self._segments.forget_counts()
            raise
        self._committed(changes, written, answers[len(before) :], writes_fragments)
        await self._segments.after_commit()

    async def _make_room(self, changes: ChangeSet) -> bool:
        """Begin segments where they are full; True if the table of fragments is to be
        written with this commit."""
        segments = self._segments
        if changes.active_added or changes.active_moved:
            await segments.make_room(segments.message)
        if changes.bodies_added:
            await segments.make_room(segments.shared_body)
            await segments.make_room(segments.body_use)
        return await segments.make_room(segments.journal) or bool(changes.dropped)

    def _current(self, changes: ChangeSet) -> CurrentSegments:
        return CurrentSegments(
            message=self._segments.message.current,
            shared_body=self._segments.shared_body.current,
            body_use=self._segments.body_use.current,
        )

    def _journal_step(self, changes: ChangeSet, fence: dict[str, int]) -> Step:
        log = changes.log
        operations = None if log.is_empty() else log.encode(changes.sealed_at)
        records = encode_records(changes.records)
        segment = self._segments.journal.current
        assert segment is not None
        segment.add(1, len(records or b"") + len(operations or b""))
        return SQL["fence_commit"].replace("{segment}", segment.name), {
            **fence,
            "epoch": changes.epoch,
            "batch": changes.batch,
            "records": records,
            "operations": operations,
        }

    def _fragment_steps(self, changes: ChangeSet) -> list[Step]:
        records = self._unwritten.with_those_of(changes.records)
        through: Step = (SQL["fragments_through"], (changes.batch,))
        if not records:
            return [through]
        # Dropped ones are deleted after this, with what else is dropped.
        return [(SQL["put_fragments"], record_columns(records)), through]

    def _committed(
        self,
        changes: ChangeSet,
        written: CommitSteps,
        answers: list[Rows],
        writes_fragments: bool,
    ) -> None:
        self._last_batch = changes.batch
        self._room.added(changes.pending_bytes)
        for segment, count, size_bytes in written.added:
            segment.add(count, size_bytes)
        for position in written.counting:
            for oid, count in answers[position]:
                self._segments.removed(oid, count)
        if writes_fragments:
            self._fragments_through = changes.batch
            self._unwritten.clear()
        else:
            self._unwritten.add(changes.records)

    async def room(self) -> int:
        if self._room.must_measure():
            rows = await self._server.rows("stored_bytes")
            self._room.measured(rows[0][0])
        return self._room.left()

    async def purge(self, fragment_number: int, limit: int) -> bool:
        self._server.check_open()
        async with self._server.fenced() as session:
            return await self._purge.portion(session, fragment_number, limit)

    async def trim(
        self, *, operations_through: int, now: int, limit: int = TRIMMED_IDS
    ) -> bool:
        self._server.check_open()
        async with self._server.fenced() as session:
            through = may_trim(operations_through, await _exported(session))
            await session.rows(SQL["trim_operations"], {"through": through})
            trimmed = await session.rows(SQL["trim_ledger_ids"], (now, limit))
        # The last commit's row says which one that was.
        await self._segments.trim(
            min(through, self._fragments_through, self._last_batch - 1)
        )
        return len(trimmed) < limit

    async def last_batch(self) -> int:
        self._server.check_open()
        for _ in range(_ASKED_AGAIN):
            await self._server.settled()
            try:
                return await self._found_out()
            except ServerLost as error:
                why = error
        raise as_unknown(why)

    async def _found_out(self) -> int:
        await self._learn_batch()
        if self._is_in_doubt:
            # What that commit said of fragments is in the journal, if it happened.
            await self.fragments()
            self._is_in_doubt = False
        return self._last_batch


async def _exported(session: PostgresSession) -> int | None:
    """The commit up to which all exports are done; None if there is no export."""
    ((has_exports,),) = await session.rows(SQL["has_export_positions"])
    if not has_exports:
        return None
    ((through,),) = await session.rows(SQL["exported_through"])
    found: int | None = through
    return found
