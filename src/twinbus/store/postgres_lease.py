"""The lease of a PostgreSQL store: lent for a term, as the server cannot see processes.

Its row is locked by each commit and changed by each taker, so one of them waits for the
other. Who takes a lease that has expired first ends the connections of the holder: what
they had begun must be over before the store is read.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import final

import psycopg

from twinbus.store.base import StoreError, StoreInUse, StoreMissing
from twinbus.store.postgres_connection import SQL, PostgresConnection
from twinbus.store.postgres_errors import connecting, lease_lost
from twinbus.store.postgres_format import FORMAT
from twinbus.store.postgres_lease_claim import LeaseClaim, LeaseRow
from twinbus.store.postgres_lease_watch import PROCESS_WATCH, LeaseWatch
from twinbus.store.postgres_schema import has_schema, open_schema
from twinbus.store.postgres_session import PostgresSession, connect


@final
class PostgresLease:
    """Of the store that is reached over one pair of connections."""

    def __init__(
        self, connection: PostgresConnection, watch: LeaseWatch = PROCESS_WATCH
    ) -> None:
        self._connection = connection
        self._claim = LeaseClaim(connection.location, self.term_ms, watch)
        # As `SchemaLease` has them.
        self.may_make: bool = True
        self.may_migrate: Callable[[], bool] = lambda: True

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
            await self._refuse_missing(session)
            await open_schema(
                session,
                connection.url,
                FORMAT,
                before_migration=partial(self._before_migration, session),
            )
            with connecting(connection.location):
                epoch = await self._take(session, owner)
        except BaseException:
            await session.close()
            raise
        connection.begin(session, epoch)
        return epoch

    async def _refuse_missing(self, session: PostgresSession) -> None:
        url = self._connection.url
        if not self.may_make and not await has_schema(session, url):
            raise StoreMissing(
                f"{url.location} is missing, and the catalog knows a store there. Is "
                "it the right database? Restore a backup of it."
            )

    async def _before_migration(self, session: PostgresSession) -> None:
        """Raises StoreInUse: its holder, or another broker, could not read it."""
        if not self.may_migrate():
            raise StoreInUse(
                f"{self._connection.location} waits until all brokers are updated: "
                f"some could not read format {FORMAT.version}."
            )
        self._claim.refuse_if_held(await _holder(session))

    async def _take(self, session: PostgresSession, owner: str) -> int:
        holder = await _holder(session)
        self._claim.refuse_if_held(holder)
        if holder.application is not None:
            await session.rows(SQL["end_backends"], (holder.application,))
        await session.rows("BEGIN")
        try:
            await session.rows(SQL["lock_lease"])
            found = await _holder(session)
            if found.sign != holder.sign:
                # Another taker was quicker, or the holder lives after all.
                raise self._claim.in_use(found)
            name = self._connection.application
            self._claim.begin_taking(name)
            rows = await session.rows(SQL["take_lease"], (owner, name))
            await session.rows("COMMIT")
        except BaseException:
            await session.roll_back()
            raise
        self._claim.taken(holder, name)
        epoch: int = rows[0][0]
        return epoch

    async def look(self) -> None:
        connection = self._connection
        if connection.epoch != 0:
            return
        session = await connect(connection.url, "twinbus")
        try:
            with connecting(connection.location):
                holder = await _holder(session)
        finally:
            await session.close()
        self._claim.saw(holder)

    def holder_ended(self, epoch: int) -> None:
        self._claim.holder_ended(epoch)

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
