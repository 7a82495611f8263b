"""One connection to a PostgreSQL server, as stores and catalogs use it.

A transaction is a list of steps, sent at once and answered at once. An answer that
takes too long is a lost connection: the socket is shut down, because a server that
hangs would keep its client waiting for ever.

Plans must not depend on what the planner believes of tables that fill and empty all
the time, so scans without an index are switched off.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, final

import psycopg
from psycopg import pq, sql
from psycopg.adapt import AdaptersMap, Buffer, Dumper
from psycopg.types.numeric import Int8BinaryDumper

from twinbus.store.base import StoreError, StoreUnreadable
from twinbus.store.postgres_errors import connecting, is_lost, lost
from twinbus.store.postgres_url import PostgresUrl
from twinbus.store.rows.postgres_rows import BigintArray, ByteaArray

Parameters = Sequence[Any] | Mapping[str, Any]
# A statement and its parameters.
Step = tuple[str, Parameters]
Rows = list[tuple[Any, ...]]

ANSWER_SECONDS: Final = 5.0
"""How long an answer may take. Less than the term of a lease: its owner must know
before others do."""

_CONNECT_SECONDS: Final = 4

# For libpq, unless the URL says otherwise: a dead host is noticed within seconds.
_LINK: Final = {
    "connect_timeout": str(_CONNECT_SECONDS),
    "keepalives_idle": "2",
    "keepalives_interval": "1",
    "keepalives_count": "3",
    "tcp_user_timeout": "5000",
    "client_encoding": "utf8",
    # Of several hosts, the one that can write.
    "target_session_attrs": "read-write",
}

_SETTINGS: Final = {
    "lock_timeout": "2s",
    "statement_timeout": "60s",
    "idle_in_transaction_session_timeout": "10s",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "default_transaction_isolation": "read committed",
}

_REPLICATION_WAIT: Final = "SyncRepWaitForLSN"
"""Where PostgreSQL warns that a commit is not replicated, and confirms it all the same:
somebody has cancelled the wait for a synchronous standby."""

_STATEMENTS_PREPARED: Final = 200
"""More than there are; the names of segments make some of them new."""


class _BigintArrayDumper(Dumper):
    format = pq.Format.BINARY
    oid = 1016

    def dump(self, obj: BigintArray) -> Buffer | None:
        return obj.data


class _ByteaArrayDumper(Dumper):
    format = pq.Format.BINARY
    oid = 1001

    def dump(self, obj: ByteaArray) -> Buffer | None:
        return obj.data


def _adapters() -> AdaptersMap:
    adapters = AdaptersMap(psycopg.adapters)
    adapters.register_dumper(BigintArray, _BigintArrayDumper)
    adapters.register_dumper(ByteaArray, _ByteaArrayDumper)
    # Else each size of an integer would make a prepared statement of its own.
    adapters.register_dumper(int, Int8BinaryDumper)
    return adapters


_ADAPTERS: Final = _adapters()


@final
class PostgresSession:
    """A connection that is open until it is closed or lost."""

    def __init__(
        self, url: PostgresUrl, connection: psycopg.AsyncConnection[tuple[Any, ...]]
    ) -> None:
        self._url = url
        self._connection = connection
        # The warning that the last commit is not replicated; empty: it is.
        self._warning = ""
        connection.add_notice_handler(self._heed)

    def _heed(self, notice: psycopg.errors.Diagnostic) -> None:
        if notice.source_function == _REPLICATION_WAIT:
            self._warning = notice.message_primary or _REPLICATION_WAIT

    @property
    def is_open(self) -> bool:
        return not self._connection.closed

    async def rows(
        self,
        statement: str,
        parameters: Parameters = (),
        seconds: float = ANSWER_SECONDS,
    ) -> Rows:
        """What one statement answers. Raises ServerLost, psycopg.Error."""
        with self._answering(seconds):
            cursor = self._connection.cursor(binary=True)
            await cursor.execute(statement, parameters, prepare=True)
            return await cursor.fetchall() if cursor.description else []

    async def answers(self, steps: Sequence[Step]) -> list[Rows]:
        """What each of many statements answers, in one round trip."""
        with self._answering(ANSWER_SECONDS):
            return await self._pipeline(steps)

    async def transaction(self, steps: Sequence[Step]) -> list[Rows]:
        """All of it or nothing, durably, in one round trip.

        Raises ServerLost if nobody knows; psycopg.Error if nothing of it happened.
        """
        with self._answering(ANSWER_SECONDS):
            try:
                answers = await self._pipeline([("BEGIN", ()), *steps, ("COMMIT", ())])
            except psycopg.Error:
                await self.roll_back()
                raise
            return answers[1:-1]

    async def copy_out(self, statement: str) -> AsyncIterator[bytes]:
        """What `COPY ... TO STDOUT` gives, in portions. Raises psycopg.Error."""
        async with self._connection.cursor().copy(statement.encode()) as copy:
            async for portion in copy:
                yield bytes(portion)

    async def copy_in(self, statement: str, portions: Iterable[bytes]) -> int:
        """Feed `COPY ... FROM STDIN`; returns the number of rows. Raises
        psycopg.Error."""
        cursor = self._connection.cursor()
        async with cursor.copy(statement.encode()) as copy:
            for portion in portions:
                await copy.write(portion)
        return cursor.rowcount

    async def roll_back(self) -> None:
        """End a transaction that an error has left open."""
        with suppress(psycopg.Error):
            await self._connection.rollback()

    async def _pipeline(self, steps: Sequence[Step]) -> list[Rows]:
        cursors = []
        async with self._connection.pipeline():
            for statement, parameters in steps:
                cursor = self._connection.cursor(binary=True)
                await cursor.execute(
                    statement, parameters, prepare=len(statement) > len("ROLLBACK")
                )
                cursors.append(cursor)
        return [
            await cursor.fetchall() if cursor.description else [] for cursor in cursors
        ]

    @contextmanager
    def _answering(self, seconds: float) -> Iterator[None]:
        """Raises ServerLost, psycopg.Error."""
        if self._connection.closed:
            raise lost(self._url.location, ConnectionError("it was closed"))
        timer = asyncio.get_running_loop().call_later(seconds, self._cut_off)
        try:
            yield
            self._check_replicated()
        except psycopg.Error as error:
            if not is_lost(error, self._connection):
                raise
            self.end()
            raise lost(self._url.location, error) from error
        finally:
            timer.cancel()

    def _check_replicated(self) -> None:
        """A commit that a standby may not have is in doubt, whatever the server says:
        if that is promoted, it never was. Raises ServerLost."""
        if self._warning:
            self.end()
            raise lost(self._url.location, ConnectionError(self._warning))

    def _cut_off(self) -> None:
        """Whoever waits for an answer finds the connection lost."""
        with suppress(psycopg.Error, OSError):
            with socket.socket(fileno=self._connection.fileno()) as shared:
                try:
                    shared.shutdown(socket.SHUT_RDWR)
                finally:
                    shared.detach()

    def end(self) -> None:
        """Give the connection up, without a word to the server."""
        with suppress(psycopg.Error):
            self._connection.pgconn.finish()

    async def close(self) -> None:
        with suppress(psycopg.Error):
            await self._connection.close()


async def connect(url: PostgresUrl, application: str) -> PostgresSession:
    """A session with the settings of ours, in the schema of the URL. The schema need
    not exist. Raises StoreError."""
    with connecting(url.location):
        connection = await psycopg.AsyncConnection.connect(
            _conninfo(url, application), autocommit=True, context=_ADAPTERS
        )
        connection.prepared_max = _STATEMENTS_PREPARED
        try:
            await _settle(url, connection)
        except BaseException:
            await connection.close()
            raise
    return PostgresSession(url, connection)


def connect_now(
    url: PostgresUrl, application: str, *, autocommit: bool = False
) -> psycopg.Connection[tuple[Any, ...]]:
    """A connection to the same server, where nothing else has to go on meanwhile.
    Raises psycopg.Error."""
    connection = psycopg.connect(_conninfo(url, application), autocommit=autocommit)
    try:
        search_path = sql.Identifier(url.schema)
        connection.execute(sql.SQL("SET search_path = {}").format(search_path))
    except BaseException:
        connection.close()
        raise
    return connection


def _conninfo(url: PostgresUrl, application: str) -> str:
    given = psycopg.conninfo.conninfo_to_dict(url.conninfo)
    options: dict[str, Any] = {**_LINK, **given, "application_name": application}
    return psycopg.conninfo.make_conninfo(**options)


async def _settle(
    url: PostgresUrl, connection: psycopg.AsyncConnection[tuple[Any, ...]]
) -> None:
    settings = _SETTINGS | {"search_path": url.schema}
    if url.synchronous_commit is not None:
        settings = settings | {"synchronous_commit": url.synchronous_commit}
    async with connection.pipeline():
        for name, value in settings.items():
            statement = sql.SQL("SET {} = {}").format(
                sql.Identifier(name), sql.Literal(value)
            )
            await connection.execute(statement)
        cursor = await connection.execute(
            "SELECT current_setting('server_version_num')::int,"
            " current_setting('synchronous_commit'), current_setting('fsync')"
        )
    row = await cursor.fetchone()
    assert row is not None
    _check_server(url, *row)


_OLDEST_SERVER: Final = 140_000


def _check_server(url: PostgresUrl, version: int, synchronous: str, fsync: str) -> None:
    if version < _OLDEST_SERVER:
        raise StoreUnreadable(
            f"{url.location} is PostgreSQL {version // 10_000}; twinbus needs 14 or "
            "newer."
        )
    if url.synchronous_commit is None and "off" in (synchronous, fsync):
        raise StoreError(
            f"{url.location}: the server confirms commits before they are on disk "
            f"(synchronous_commit = {synchronous}, fsync = {fsync}), so a message that "
            "was accepted could be lost. Switch both on, or add synchronous_commit=off "
            "to the URL if that may happen."
        )
