"""The format of a store's file: what it has been, and what must be in it now."""

from typing import Final

from twinbus.store.sqlite_file import SqliteFormat

FORMAT: Final = SqliteFormat(
    noun="store",
    application_id=0x74776275,  # "twbu"
    migrations="sqlite_migrations",
    version=4,
    tables=frozenset(
        {
            *("meta", "lease", "fragment", "dropped_fragment", "entity"),
            *("message", "deferred", "scheduled", "shared_body", "body_use"),
            *("session_state", "rule", "reader_lease"),
            *("outbox", "ledger_range", "ledger_id", "operation_log"),
        }
    ),
)
