"""Which formats this code reads, and whether others read them, too.

A file is brought to a newer format only when every broker that is announced can read
that: otherwise it would be lost to those that run an older version.
"""

from collections.abc import Iterable
from contextlib import closing, suppress
from sqlite3 import Error
from typing import Final

from twinbus.store import postgres_versions
from twinbus.store.base import Store
from twinbus.store.catalog import BrokerRecord
from twinbus.store.sqlite import SqliteStore
from twinbus.store.sqlite_file import connect_to_read
from twinbus.store.sqlite_format import FORMAT as SQLITE_STORE_FORMAT

FORMATS: Final = "formats"
"""In the description of a broker: the newest format that it reads, by kind."""

CATALOG: Final = "catalog"
POSTGRES_CATALOG: Final = "postgres catalog"
SQLITE_STORE: Final = "sqlite store"
POSTGRES_STORE: Final = "postgres store"


def readable_formats(catalog_version: int) -> dict[str, int]:
    """What a broker of this code announces."""
    return {
        CATALOG: catalog_version,
        POSTGRES_CATALOG: postgres_versions.CATALOG_FORMAT,
        SQLITE_STORE: SQLITE_STORE_FORMAT.version,
        POSTGRES_STORE: postgres_versions.STORE_FORMAT,
    }


def unready_brokers(
    brokers: Iterable[BrokerRecord], kind: str, version: int
) -> list[BrokerRecord]:
    """Those that cannot read that format."""
    return [
        broker
        for broker in brokers
        if int(broker.description.get(FORMATS, {}).get(kind, 0)) < version
    ]


def needs_migration(store: Store) -> bool:
    """To take the file would bring it to a newer format. A PostgreSQL store is asked
    by whoever takes it (`PostgresLease.may_migrate`)."""
    if not isinstance(store, SqliteStore) or not store.path.exists():
        return False
    # A file that cannot be read is refused when it is opened.
    with suppress(Error), closing(connect_to_read(store.path)) as db:
        (version,) = db.execute("SELECT format_version FROM meta").fetchone()
        return bool(version < SQLITE_STORE_FORMAT.version)
    return False
