"""The lease of a PostgreSQL store: lent for a term, as the server cannot see processes.

Its row is locked by each commit and changed by each taker, so one of them waits for the
other. Who takes a lease that has expired first ends the connections of the holder: what
they had begun must be over before the store is read.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import final

import psycopg

from twinbus.store.base import LeaseInDoubt, StoreError, StoreInUse
from twinbus.store.postgres_connection import SQL, PostgresConnection
from twinbus.store.postgres_errors import connecting, lease_lost
from twinbus.store.postgres_format import FORMAT
from twinbus.store.postgres_lease_watch import PROCESS_WATCH, LeaseWatch
from twinbus.store.postgres_schema import open_schema
from twinbus.store.postgres_session import PostgresSession, connect


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRow:
    """What the row of the lease says."""

    epoch: int
    connection: int
    # None: nobody.
    owner: str | None
    application: str | None
    beat: int
    batch: int
    store_uuid: bytes

    @property
    def sign(self) -> tuple[int, ...]:
        return self.epoch, self.connection, self.beat, self.batch


@final
class PostgresLease:
    """Of the store that is reached over one pair of connections."""

    def __init__(
        self, connection: PostgresConnection, watch: LeaseWatch = PROCESS_WATCH
    ) -> None:
        self._connection = connection
        self._watch = watch

    @property
    def term_ms(self) -> int:
        return self._connection.url.lease_ms

    # --- take -----------------------------------------------------------------

    async def take(self, owner: str, now: int) -> int:
        connection = self._connection
        if connection.epoch != 0:
            raise StoreInUse(f"{connection.location} is open already.")
        session = await connect(connection.url, connection.new_application())
        try:
            await open_schema(session, connection.url, FORMAT)
            with connecting(connection.location):
                epoch = await self._take(session, owner)
        except BaseException:
            await session.close()
            raise
        connection.begin(session, epoch)
        return epoch

    async def _take(self, session: PostgresSession, owner: str) -> int:
        holder = await _holder(session)
        self._refuse_if_held(holder)
        if holder.application is not None:
            await session.rows(SQL["end_backends"], (holder.application,))
        await session.rows("BEGIN")
        try:
            await session.rows(SQL["lock_lease"])
            found = await _holder(session)
            if found.sign != holder.sign:
                # Another taker was quicker, or the holder lives after all.
                raise self._in_use(found)
            rows = await session.rows(
                SQL["take_lease"], (owner, self._connection.application)
            )
            await session.rows("COMMIT")
        except BaseException:
            await session.roll_back()
            raise
        self._watch.forget(holder.store_uuid)
        epoch: int = rows[0][0]
        return epoch

    def _refuse_if_held(self, holder: LeaseRow) -> None:
        """Raises StoreInUse: LeaseInDoubt, if its holder may be dead."""
        if holder.owner is None:
            self._watch.forget(holder.store_uuid)
            return
        unchanged_ms = self._watch.unchanged_ms(holder.store_uuid, holder.sign)
        if unchanged_ms is None:
            raise self._in_use(holder)
        if unchanged_ms < self.term_ms:
            raise LeaseInDoubt(
                f"{self._connection.location} is in use by {holder.owner}, or was "
                f"until it died: unless it is heard of, it can be taken in "
                f"{self.term_ms - unchanged_ms} ms."
            )

    def _in_use(self, holder: LeaseRow) -> StoreInUse:
        return StoreInUse(
            f"{self._connection.location} is in use by {holder.owner}: stop it or "
            "choose another schema."
        )

    # --- held -----------------------------------------------------------------

    async def renew(self, now: int) -> None:
        connection = self._connection
        connection.check_open()
        fence = await connection.ready()
        (rows,) = await connection.transaction([(SQL["renew"], fence)])
        if not rows:
            raise lease_lost(connection.location)

    async def give_back(self) -> None:
        connection = self._connection
        if connection.epoch == 0:
            return
        owned = (connection.epoch, connection.application)
        # If it fails, the lease ends with its term.
        with suppress(psycopg.Error, StoreError):
            session = await connection.writer()
            await session.rows(SQL["give_lease_back"], owned)
        await connection.end()

    async def abandon(self) -> None:
        """Let go without giving it back, as the end of the process would."""
        await self._connection.end()


async def _holder(session: PostgresSession) -> LeaseRow:
    epoch, number, owner, application, beat, batch, store_uuid = (
        await session.rows(SQL["holder"])
    )[0]
    return LeaseRow(
        epoch=epoch,
        connection=number,
        owner=owner,
        application=application,
        beat=beat,
        batch=batch,
        store_uuid=store_uuid,
    )
