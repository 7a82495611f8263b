"""Whether a PostgreSQL store is whole: what must be true of our rows.

- Counters are what is there, in messages and bytes; no message has a number that is
  not given yet, or is there twice; nothing belongs to a fragment that is not; every
  shared body is there and used as often as it says.
- The catalog knows the same entities.

Everything is read in one snapshot, so a bus may serve the store meanwhile. Pages and
indexes are the server's business: it has checksums and pg_amcheck.
"""

from collections.abc import Callable, Iterable
from typing import Final, final

from twinbus.broker.row_id import fragment_number_of, sequence_of
from twinbus.store.audit_findings import Finding, HeldRows, differences
from twinbus.store.base import StoreUnreadable
from twinbus.store.catalog import EntityRecord
from twinbus.store.postgres_connection import SQL as STORE_SQL
from twinbus.store.postgres_errors import reading
from twinbus.store.postgres_format import FORMAT
from twinbus.store.postgres_journal import UnwrittenRecords, fragment_record
from twinbus.store.postgres_schema import check_schema
from twinbus.store.postgres_session import PostgresSession, Rows, connect
from twinbus.store.postgres_url import PostgresUrl
from twinbus.store.statements import named_statements

_SQL: Final = named_statements("postgres_audit.sql")
_TABLES: Final = ("active", "deferred", "scheduled")

_ANSWER_SECONDS: Final = 24 * 3600.0
"""For statements that read every row."""


@final
class PostgresAudit:
    """One look at a store, and at what the catalog says of it."""

    def __init__(
        self,
        url: PostgresUrl,
        entities: Iterable[EntityRecord],
        progress: Callable[[str], None],
    ) -> None:
        self.store = url.location
        self._url = url
        self._entities = list(entities)
        self._progress = progress
        self.findings: list[Finding] = []
        # The last commit.
        self.batch = 0
        self.message_count = 0
        # Somebody may serve the store, and change the catalog.
        self._is_served = False

    def is_whole(self) -> bool:
        return not any(finding.is_damage for finding in self.findings)

    async def run(self) -> None:
        """Look at everything. Raises StoreError if it cannot be read at all."""
        session = await connect(self._url, "twinbus check")
        try:
            if not await check_schema(session, self._url, FORMAT):
                raise StoreUnreadable(f"There is no store {self.store}.")
            with reading(self.store):
                for name in ("begin", "keep_segments", "read_all", "no_timeout"):
                    await session.rows(_SQL[name])
                await self._look(session)
        finally:
            await session.close()

    async def _look(self, session: PostgresSession) -> None:
        ((uuid, owner, self.batch),) = await session.rows(_SQL["identity"])
        self._is_served = owner is not None
        self._progress(f"{self.store}: counters against messages")
        generations = await self._check_fragments(session)
        self._progress(f"{self.store}: shared bodies")
        await self._check_bodies(session)
        self._check_catalog(bytes(uuid), generations)

    async def _rows(self, session: PostgresSession, name: str) -> Rows:
        return await session.rows(_SQL[name], (), _ANSWER_SECONDS)

    def _find(self, text: str, *, is_damage: bool = True) -> None:
        self.findings.append(Finding(file=self.store, text=text, is_damage=is_damage))

    async def _check_fragments(self, session: PostgresSession) -> set[bytes]:
        held = await self._held(session)
        known = {number for (number,) in await self._rows(session, "dropped")}
        unwritten = UnwrittenRecords()
        blobs = await session.rows(STORE_SQL["journal_records"], (), _ANSWER_SECONDS)
        unwritten.learn(blob for (blob,) in blobs)
        table = map(fragment_record, await session.rows(STORE_SQL["fragments"]))
        generations = set()
        for record in unwritten.over(table):
            known.add(record.number)
            generations.add(bytes(record.generation))
            counters = (
                *(record.active_count, record.deferred_count),
                *(record.scheduled_count, record.size_bytes),
            )
            rows = held.get(record.number, HeldRows())
            for text in differences(
                record.number, counters, record.next_sequence, rows
            ):
                self._find(text)
        others = {number for (number,) in await self._rows(session, "of_fragments")}
        for number in sorted((set(held) | others) - known):
            self._find(f"has rows of fragment {number}, which does not exist")
        return generations

    async def _held(self, session: PostgresSession) -> dict[int, HeldRows]:
        held: dict[int, HeldRows] = {}
        for i, state in enumerate(_TABLES):
            for count, size_bytes, last in await self._rows(session, f"held_{state}"):
                of = held.setdefault(fragment_number_of(last), HeldRows())
                of.counts[i] = count
                of.size_bytes += size_bytes or 0
                of.last_sequence = max(of.last_sequence, sequence_of(last))
                self.message_count += count
        for number, size_bytes in await self._rows(session, "held_states"):
            held.setdefault(number, HeldRows()).size_bytes += size_bytes
        return held

    async def _check_bodies(self, session: PostgresSession) -> None:
        ((doubled,),) = await self._rows(session, "doubled")
        if doubled:
            self._find(f"has {doubled} messages twice")
        ((missing,),) = await self._rows(session, "bodies_missing")
        if missing:
            self._find(f"lacks the shared body of {missing} messages")
        ((miscounted,),) = await self._rows(session, "bodies_miscounted")
        if miscounted:
            self._find(f"counts the uses of {miscounted} shared bodies wrongly")

    def _check_catalog(self, store_uuid: bytes, generations: set[bytes]) -> None:
        """While somebody serves the store, the two are not of the same moment."""
        # The namespace itself has a record, and no fragment.
        own = [
            one for one in self._entities if one.path and store_uuid in one.placement
        ]
        for record in own:
            if record.generation not in generations:
                self._find(
                    f"has nothing of '{record.path}', which the catalog knows",
                    is_damage=not self._is_served,
                )
        strangers = generations - {record.generation for record in own}
        if strangers and self._entities:
            self._find(
                f"has fragments of {len(strangers)} entities that the catalog does not "
                "know: it is older than the store, or they were being deleted",
                is_damage=False,
            )
