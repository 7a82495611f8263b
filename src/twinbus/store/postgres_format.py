"""The format of a store's schema: what it has been, and what must be in it now."""

from typing import Final

from twinbus.store.postgres_schema import PostgresFormat
from twinbus.store.postgres_versions import STORE_FORMAT

FORMAT: Final = PostgresFormat(
    kind="store",
    migrations="postgres_migrations",
    version=STORE_FORMAT,
    tables=frozenset(
        {
            *("twinbus_meta", "lease", "renewal", "journal"),
            *("fragment", "dropped_fragment", "entity"),
            *("message", "deferred", "scheduled", "shared_body", "body_use"),
            *("session_state", "rule", "reader_lease"),
            *("outbox", "ledger_range", "ledger_id"),
        }
    ),
)
