"""A schema of ours in a PostgreSQL database: made, recognised, brought to the current
format.

What is in it is one store or one catalog, and nothing else. Making and migrating it is
one transaction under an advisory lock, so of two brokers that start at the same time
one does it and the other finds it done. Nobody is made to wait for long: what cannot be
locked within the lock timeout is tried again by whoever opens the store.
"""

import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from twinbus.store.base import FormatTooNew, StoreUnreadable
from twinbus.store.postgres_errors import connecting, unreadable
from twinbus.store.postgres_session import PostgresSession, Step
from twinbus.store.postgres_url import PostgresUrl
from twinbus.store.statements import migrations

_LOCK_SPACE: Final = 0x74776275
"""Of our advisory locks: "twbu"."""

_TABLES: Final = (
    "SELECT c.relname FROM pg_class AS c"
    " JOIN pg_namespace AS n ON n.oid = c.relnamespace"
    " WHERE n.nspname = %s AND c.relkind IN ('r', 'p', 'v', 'm', 'f')"
)
_META: Final = "SELECT kind, format_version, min_reader_version FROM twinbus_meta"


BeforeMigration = Callable[[], Awaitable[None]]
"""Called before a schema that exists is brought to a newer format, inside of the
transaction that does it. Raises StoreError if somebody could not read it then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresFormat:
    """A kind of schema, with all formats it has had."""

    # What it is: in `twinbus_meta`, and in messages.
    kind: str
    # Folder of `sql/`.
    migrations: str
    version: int
    # What must be there in the current format.
    tables: frozenset[str]


async def open_schema(
    session: PostgresSession,
    url: PostgresUrl,
    expected: PostgresFormat,
    *,
    before_migration: BeforeMigration,
) -> None:
    """Make the schema, or bring it to the current format. Raises StoreUnreadable,
    StoreError."""
    with connecting(url.location):
        tables = await _tables(session, url)
        if "twinbus_meta" in tables and await _is_current(session, url, expected):
            _check_complete(url, expected, tables)
            return
        try:
            await _migrate(session, url, expected, before_migration)
        except BaseException:
            await session.roll_back()
            raise
        _check_complete(url, expected, await _tables(session, url))


async def has_schema(session: PostgresSession, url: PostgresUrl) -> bool:
    """There is something of ours. Raises StoreError."""
    with connecting(url.location):
        return "twinbus_meta" in await _tables(session, url)


async def check_schema(
    session: PostgresSession, url: PostgresUrl, expected: PostgresFormat
) -> bool:
    """Whether it is there, and can be read as it is. Raises StoreUnreadable,
    StoreError."""
    with connecting(url.location):
        tables = await _tables(session, url)
        if "twinbus_meta" not in tables:
            return False
        await _format(session, url, expected)
        _check_complete(url, expected, tables)
        return True


async def _tables(session: PostgresSession, url: PostgresUrl) -> set[str]:
    return {name for (name,) in await session.rows(_TABLES, (url.schema,))}


async def _is_current(
    session: PostgresSession, url: PostgresUrl, expected: PostgresFormat
) -> bool:
    return await _format(session, url, expected) >= expected.version


async def _format(
    session: PostgresSession, url: PostgresUrl, expected: PostgresFormat
) -> int:
    rows = await session.rows(_META)
    if len(rows) != 1:
        raise unreadable(url.location, "its format version is missing")
    kind, version, min_reader_version = rows[0]
    if kind != expected.kind:
        raise StoreUnreadable(
            f"{url.location} is a {kind}, and not a {expected.kind}. "
            "Choose another schema."
        )
    if min_reader_version > expected.version:
        raise FormatTooNew(
            f"{url.location} has format {version}, which needs a twinbus that knows "
            f"format {min_reader_version}; this one knows formats up to "
            f"{expected.version}. Use a newer twinbus."
        )
    format_version: int = version
    return format_version


async def _migrate(
    session: PostgresSession,
    url: PostgresUrl,
    expected: PostgresFormat,
    before_migration: BeforeMigration,
) -> None:
    await session.rows("BEGIN")
    await session.rows(
        "SELECT pg_advisory_xact_lock(%s::bigint)",
        (_LOCK_SPACE << 32 | zlib.crc32(url.schema.encode()),),
    )
    # Another may have done it meanwhile.
    tables = await _tables(session, url)
    version = 0
    if "twinbus_meta" in tables:
        version = await _format(session, url, expected)
        if version < expected.version:
            await before_migration()
    elif tables:
        raise StoreUnreadable(
            f"The schema of {url.location} has tables that are not twinbus's "
            f"({min(tables)}, for example). Choose another schema."
        )
    else:
        await _create_schema(session, url)
    steps: list[Step] = [
        (statement, ())
        for number, statements in migrations(expected.migrations)
        if version < number <= expected.version
        for statement in statements
    ]
    for statement, parameters in steps:
        await session.rows(statement, parameters)
    await session.rows("COMMIT")


async def _create_schema(session: PostgresSession, url: PostgresUrl) -> None:
    found = await session.rows(
        "SELECT 1 FROM pg_namespace WHERE nspname = %s", (url.schema,)
    )
    if not found:
        # Checked by `postgres_url.py`: it needs no quotes.
        await session.rows(f"CREATE SCHEMA {url.schema}")


def _check_complete(
    url: PostgresUrl, expected: PostgresFormat, tables: set[str]
) -> None:
    missing = expected.tables - tables
    if missing:
        raise unreadable(url.location, f"it lacks the table {min(missing)}")
