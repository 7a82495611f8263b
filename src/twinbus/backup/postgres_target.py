"""Makes a PostgreSQL store from the tables in a backup, with a new identity.

The schema is made in the format that it had, and is brought to a newer one when a bus
first takes it, as any other. Rows of segments go into one segment for each table.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, final

from twinbus.backup.manifest import POSTGRES, BackedUpStore, Progress
from twinbus.backup.new_identity import (
    EPOCHS_SKIPPED,
    SEQUENCES_SKIPPED,
    NewIdentity,
)
from twinbus.backup.postgres_source import SQL
from twinbus.broker.changes import StoredEntity
from twinbus.outbox.outbox_arrival import LEDGER
from twinbus.store.audit_findings import Finding
from twinbus.store.base import StoreUnreadable
from twinbus.store.catalog import EntityRecord
from twinbus.store.postgres import DEFAULT_SCHEMA
from twinbus.store.postgres_audit import PostgresAudit
from twinbus.store.postgres_catalog import DEFAULT_SCHEMA as CATALOG_SCHEMA
from twinbus.store.postgres_connection import SQL as STORE_SQL
from twinbus.store.postgres_errors import connecting
from twinbus.store.postgres_format import FORMAT
from twinbus.store.postgres_journal import (
    UnwrittenRecords,
    fragment_record,
    record_columns,
)
from twinbus.store.postgres_schema import has_schema, open_schema
from twinbus.store.postgres_session import PostgresSession, connect
from twinbus.store.postgres_url import PostgresUrl, parse_postgres_url

_NAME: Final = "twinbus restore"
_SEGMENTED: Final = ("message", "journal", "shared_body", "body_use")
_PORTION_BYTES: Final = 1 << 18


@final
class PostgresStoreTarget:
    """A schema that is empty, or not there yet."""

    kind: str = POSTGRES

    def __init__(self, url: str) -> None:
        self._url: PostgresUrl = parse_postgres_url(url, DEFAULT_SCHEMA)

    @property
    def location(self) -> str:
        return self._url.location

    async def exists(self) -> bool:
        session = await connect(self._url, _NAME)
        try:
            return await has_schema(session, self._url)
        finally:
            await session.close()

    async def write(
        self, folder: Path, store: BackedUpStore, new: NewIdentity, progress: Progress
    ) -> None:
        """Raises StoreError, OSError."""
        session = await connect(self._url, _NAME)
        try:
            # What is not the current format is completed when it is migrated.
            made = replace(FORMAT, version=store.format_version, tables=frozenset())
            await open_schema(session, self._url, made, before_migration=_nobody)
            with connecting(self.location):
                await session.rows(SQL["no_timeout"])
                await session.rows(SQL["no_idle_timeout"])
                await session.rows("BEGIN")
                await self._fill(session, folder / store.place, store, progress)
                await _renew(session, store, new)
                await session.rows("COMMIT")
        finally:
            await session.close()

    async def _fill(
        self,
        session: PostgresSession,
        folder: Path,
        store: BackedUpStore,
        progress: Progress,
    ) -> None:
        for table, about in store.details["tables"].items():
            progress(f"filling {self.location}: {table}")
            into = table
            if table in _SEGMENTED:
                into = f"{table}_0_1"
                make = STORE_SQL["make_segment"].replace("{parent}", table)
                await session.rows(make.replace("{segment}", into))
            columns = ", ".join(about["columns"])
            statement = f"COPY {into} ({columns}) FROM STDIN (FORMAT binary)"
            count = await session.copy_in(
                statement, _portions(folder / f"{table}.copy")
            )
            if count != about["rows"]:
                raise StoreUnreadable(
                    f"{count} rows of {table} were restored, and {about['rows']} were "
                    "backed up."
                )

    async def discard(self, epoch: int) -> bool:
        """Remove what an interrupted restore has written here. False if somebody has
        used it since."""
        session = await connect(self._url, _NAME)
        try:
            with connecting(self.location):
                if await has_schema(session, self._url):
                    # An interrupted one has made the schema, and not committed more.
                    expected = (epoch + EPOCHS_SKIPPED,)
                    ((is_ours,),) = await session.rows(SQL["is_untouched"], expected)
                    ((is_new,),) = await session.rows(SQL["is_untouched"], (0,))
                    if not is_ours and not is_new:
                        return False
                await _drop(session, self._url)
        finally:
            await session.close()
        return True

    async def findings(
        self, entities: Sequence[EntityRecord], catalog: Path | None
    ) -> list[Finding]:
        """What `twinbus check` would find. Raises StoreError."""
        audit = PostgresAudit(self._url, entities, lambda _: None)
        await audit.run()
        return audit.findings


async def drop_catalog(url: str) -> None:
    """Remove what an interrupted restore has written. Raises StoreError."""
    parsed = parse_postgres_url(url, CATALOG_SCHEMA)
    session = await connect(parsed, _NAME)
    try:
        with connecting(parsed.location):
            await _drop(session, parsed)
    finally:
        await session.close()


async def _drop(session: PostgresSession, url: PostgresUrl) -> None:
    # Checked by `postgres_url.py`: it needs no quotes.
    await session.rows(SQL["drop_schema"].replace("{schema}", url.schema))


async def _nobody() -> None:
    """Nobody uses a schema that is just being made."""


def _portions(file: Path) -> Iterator[bytes]:
    with file.open("rb") as stream:
        while portion := stream.read(_PORTION_BYTES):
            yield portion


async def _renew(
    session: PostgresSession, store: BackedUpStore, new: NewIdentity
) -> None:
    details = store.details
    through = (details["fragments_through"], details["trimmed_through"])
    await session.rows(SQL["put_meta"], (new.of_store(store).uuid, *through))
    await session.rows(SQL["put_epoch"], (store.epoch + EPOCHS_SKIPPED,))
    await _skip_sequences(session, store)
    await session.rows(SQL["end_readers"], (new.now,))
    for name in new.names:
        renamed = (name.old_uuid.hex(), name.uuid.hex())
        await session.rows(SQL["rename_targets"], renamed)
        old = (name.uuid, LEDGER, name.old_uuid)
        await session.rows(SQL["rename_ledger"], old)
    for generation, definition in await session.rows(STORE_SQL["entities"]):
        stored = StoredEntity(generation=bytes(generation), definition=definition)
        found = new.renamed_copy(stored)
        await session.rows(SQL["put_definition"], (found.definition, generation))
    await session.rows(SQL["next_rule"])


async def _skip_sequences(session: PostgresSession, store: BackedUpStore) -> None:
    """The journal has records that the table lacks; now the table has them all."""
    unwritten = UnwrittenRecords()
    unwritten.learn(
        blob for (blob,) in await session.rows(STORE_SQL["journal_records"])
    )
    table = map(fragment_record, await session.rows(STORE_SQL["fragments"]))
    records = [
        replace(one, next_sequence=one.next_sequence + SEQUENCES_SKIPPED)
        for one in unwritten.over(table)
    ]
    await session.rows(STORE_SQL["put_fragments"], record_columns(records))
    await session.rows(STORE_SQL["fragments_through"], (store.batch,))
