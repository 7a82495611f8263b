"""The announcements of brokers, in the file of a SQLite catalog.

They are written once a second by each broker and mean nothing after a crash of the
machine. So they have a connection of their own that does not sync: SQLite keeps the
file whole all the same (`synchronous = NORMAL`). An announcement does not wait for
another program's write, because the event loop would wait with it; the next one comes
soon.
"""

import json
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, final

from twinbus.store.base import StoreInUse
from twinbus.store.catalog import BrokerRecord
from twinbus.store.formats import CATALOG, unready_brokers
from twinbus.store.process_identity import is_running, process_of_json
from twinbus.store.sqlite_errors import reading, transaction
from twinbus.store.sqlite_file import connect_to_write
from twinbus.store.statements import named_statements

_SQL: Final = named_statements("sqlite_catalog.sql")

_BUSY_TIMEOUT_MS: Final = 50


@final
class SqliteBrokers:
    """In one file, which exists."""

    def __init__(self, path: Path) -> None:
        self._path: Path = path
        with reading(path):
            self._db: sqlite3.Connection = connect_to_write(path)
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")

    def announce(self, broker: BrokerRecord) -> None:
        description = json.dumps(dict(broker.description))
        row = (broker.broker_uuid, broker.address, broker.beat, description)
        with transaction(self._db, self._path):
            self._db.execute(_SQL["announce"], row)

    def all(self) -> list[BrokerRecord]:
        with reading(self._path):
            rows = self._db.execute(_SQL["brokers"]).fetchall()
        return [_broker_record(row) for row in rows]

    def withdraw(self, broker_uuid: bytes) -> None:
        with transaction(self._db, self._path):
            self._db.execute(_SQL["withdraw"], (broker_uuid,))

    def close(self) -> None:
        self._db.close()


def refuse_to_leave_behind(db: sqlite3.Connection, path: Path, version: int) -> None:
    """Raises StoreInUse if a broker that runs could not read that format of the
    catalog, and the file is to be brought to it."""
    try:
        (found,) = db.execute("SELECT format_version FROM meta").fetchone()
        rows = db.execute(_SQL["brokers"]).fetchall() if found < version else []
    except (sqlite3.OperationalError, TypeError):
        # It is damaged, which whoever reads it next can tell better.
        return
    for broker in unready_brokers(map(_broker_record, rows), CATALOG, version):
        with suppress(KeyError, TypeError, ValueError):
            process = process_of_json(broker.description["process"])
            if is_running(process):
                raise StoreInUse(
                    f"{path} has format {found}. A broker with an older version of "
                    f"twinbus uses it (process {process.pid}), and could not read "
                    f"format {version}. Stop it first."
                )


def _broker_record(row: tuple[Any, ...]) -> BrokerRecord:
    broker_uuid, address, beat, description = row
    return BrokerRecord(
        broker_uuid=broker_uuid,
        address=address,
        beat=beat,
        description=json.loads(description),
    )
