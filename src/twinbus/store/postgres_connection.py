"""The connections to a store while its lease is held, and what comes with them.

One is the owner's: it commits, and reads what the owner reads. The other is for reads
that run beside a commit. Either may be lost at any time. The owner's next one gets a
new number in the lease, before anything is asked over it: what the server may still
have to do for the lost one is refused from then on, because a commit names its
connection.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, final

import psycopg

from twinbus.store.base import CommitUnknown, LeaseLost, StoreError
from twinbus.store.postgres_errors import (
    ServerLost,
    as_unknown,
    lease_lost,
    reading,
    refusal,
)
from twinbus.store.postgres_session import (
    ANSWER_SECONDS,
    Parameters,
    PostgresSession,
    Rows,
    Step,
    connect,
)
from twinbus.store.postgres_url import PostgresUrl
from twinbus.store.statements import named_statements

SQL: Final = named_statements("postgres_store.sql")

_TRIES: Final = 20
_PAUSE_SECONDS: Final = 0.2
"""A standby that is promoted is found within four seconds, before the lease is over."""


@final
class PostgresConnection:
    """To one schema, for one owner."""

    def __init__(self, url: PostgresUrl) -> None:
        self.url: PostgresUrl = url
        # Nobody else has it: by this name the next owner ends our connections.
        self.application: str = ""
        # In which the lease is held; 0: it is not.
        self.epoch: int = 0
        # The number of the owner's connection within the epoch.
        self.number: int = 0
        self._writer: PostgresSession | None = None
        self._reader: PostgresSession | None = None
        # Requests of many clients share the reader.
        self._reading = asyncio.Lock()

    @property
    def location(self) -> str:
        return self.url.location

    # --- life -----------------------------------------------------------------

    def new_application(self) -> str:
        """A name for the connections of the next tenure."""
        self.application = f"twinbus {secrets.token_hex(16)}"
        return self.application

    def begin(self, writer: PostgresSession, epoch: int) -> None:
        """The lease was taken over this session."""
        self._writer = writer
        self.epoch = epoch
        self.number = 1

    async def end(self) -> None:
        """The lease is not held any more."""
        sessions, self._writer, self._reader = (self._writer, self._reader), None, None
        self.epoch = 0
        for session in sessions:
            if session is not None:
                await session.close()

    def check_open(self) -> None:
        if self.epoch == 0:
            raise StoreError(f"{self.location} is not open.")

    async def writer(self) -> PostgresSession:
        """The owner's session, made again if it was lost. Raises ServerLost,
        LeaseLost, StoreError."""
        self.check_open()
        if self._writer is None or not self._writer.is_open:
            self._writer = await self._reconnected()
        return self._writer

    async def _reconnected(self) -> PostgresSession:
        session = await connect(self.url, self.application)
        try:
            await session.rows(SQL["end_backends"], (self.application,))
            rows = await session.rows(SQL["reconnect"], (self.epoch, self.application))
        except psycopg.Error as error:
            await session.close()
            raise StoreError(f"{self.location} does not answer: {error}") from error
        except BaseException:
            await session.close()
            raise
        if not rows:
            await session.close()
            raise lease_lost(self.location)
        self.number = rows[0][0]
        return session

    # --- reading --------------------------------------------------------------

    async def rows(
        self, name: str, parameters: Parameters = (), seconds: float = ANSWER_SECONDS
    ) -> Rows:
        """What a statement answers to the owner."""
        with reading(self.location):
            try:
                return await (await self.writer()).rows(SQL[name], parameters, seconds)
            except ServerLost:
                return await (await self.writer()).rows(SQL[name], parameters, seconds)

    async def answers(self, steps: Sequence[Step]) -> list[Rows]:
        """What many statements answer to the owner, in one round trip."""
        with reading(self.location):
            try:
                return await (await self.writer()).answers(steps)
            except ServerLost:
                return await (await self.writer()).answers(steps)

    async def beside(self, name: str, parameters: Parameters) -> Rows:
        """What a statement answers while the owner may be committing."""
        self.check_open()
        async with self._reading:
            with reading(self.location):
                try:
                    return await (await self._beside()).rows(SQL[name], parameters)
                except ServerLost:
                    return await (await self._beside()).rows(SQL[name], parameters)

    async def _beside(self) -> PostgresSession:
        self.check_open()
        if self._reader is None or not self._reader.is_open:
            self._reader = await connect(self.url, self.application)
        return self._reader

    # --- writing --------------------------------------------------------------

    async def ready(self) -> dict[str, int]:
        """Make sure of the owner's connection; what a commit over it is fenced by.
        Raises CommitUnknown, LeaseLost."""
        try:
            await self.writer()
        except LeaseLost:
            raise
        except StoreError as error:
            self.check_open()
            raise CommitUnknown(f"Nothing can be committed: {error}") from error
        return {"epoch": self.epoch, "connection": self.number}

    async def transaction(self, steps: Sequence[Step]) -> list[Rows]:
        """All steps or none, over the connection that was made ready. Raises StoreFull,
        CommitFailed, CommitUnknown, LeaseLost."""
        async with self._committing():
            assert self._writer is not None
            return await self._writer.transaction(steps)

    @asynccontextmanager
    async def fenced(self) -> AsyncIterator[PostgresSession]:
        """A transaction whose steps depend on each other. Raises as `transaction`."""
        fence = await self.ready()
        async with self._committing():
            session = self._writer
            assert session is not None
            await session.rows("BEGIN")
            try:
                if not await session.rows(SQL["fence"], fence):
                    raise lease_lost(self.location)
                yield session
                await session.rows("COMMIT")
            except BaseException:
                await session.roll_back()
                raise

    @asynccontextmanager
    async def _committing(self) -> AsyncIterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise refusal(self.location, error) from error
        except ServerLost as error:
            # Who took the lease has ended the connection: then that is the answer.
            await self._look_for_lease()
            raise as_unknown(error) from error

    async def _look_for_lease(self) -> None:
        """Raises LeaseLost if another has it. Nothing, if the server is away."""
        try:
            await self.writer()
        except LeaseLost:
            raise
        except StoreError:
            return

    async def settled(self) -> PostgresSession:
        """A session after which nothing of earlier ones can happen any more. Waits for
        a server that comes back. Raises CommitUnknown, LeaseLost."""
        for _ in range(_TRIES):
            self.check_open()
            try:
                return await self.writer()
            except LeaseLost:
                raise
            except StoreError as error:
                why = error
            await asyncio.sleep(_PAUSE_SECONDS)
        raise CommitUnknown(f"{self.location} does not come back: {why}") from why
