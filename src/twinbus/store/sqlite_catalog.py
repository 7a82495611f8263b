"""The catalog in a SQLite file of its own, for all brokers of one machine.

Nobody owns it: a change is one short transaction, and whoever opens the file reads
what was changed before. It holds access keys, so the file is readable by its user
alone.
"""

import json
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, final

from twinbus.store.base import StoreError, StoreInUse
from twinbus.store.catalog import EntityRecord
from twinbus.store.sqlite_errors import Busy, locked, reading, transaction
from twinbus.store.sqlite_file import SqliteFormat, migrate, open_file
from twinbus.store.statements import named_statements

_SQL: Final = named_statements("sqlite_catalog.sql")

FORMAT: Final = SqliteFormat(
    noun="catalog",
    application_id=0x74776263,  # "twbc"
    migrations="catalog_migrations",
    version=1,
    tables=frozenset({"meta", "entity", "broker"}),
)


@final
class SqliteCatalog:
    """Entity descriptions in a file, which is made when it is first opened."""

    def __init__(self, path: Path | str) -> None:
        self.path: Path = Path(path)
        # The connection while the catalog is open.
        self._open_db: sqlite3.Connection | None = None

    async def open(self) -> list[EntityRecord]:
        if self._open_db is not None:
            raise StoreInUse(f"{self.path} is open already.")
        db = open_file(self.path, FORMAT)
        try:
            with transaction(db, self.path), reading(self.path):
                migrate(db, self.path, FORMAT)
                rows = db.execute(_SQL["entities"]).fetchall()
        except Busy as error:
            db.close()
            raise locked(self.path) from error
        except BaseException:
            db.close()
            raise
        self._open_db = db
        return [_entity_record(row) for row in rows]

    async def put(self, entity: EntityRecord) -> None:
        with transaction(self._db, self.path):
            self._db.execute(_SQL["put_entity"], _entity_row(entity))

    async def remove(self, namespace: str, paths: Sequence[str]) -> None:
        keys = [(namespace.lower(), path.lower()) for path in paths]
        with transaction(self._db, self.path):
            self._db.executemany(_SQL["remove_entity"], keys)

    async def close(self) -> None:
        if self._open_db is not None:
            with suppress(sqlite3.Error):
                self._open_db.close()
            self._open_db = None

    @property
    def _db(self) -> sqlite3.Connection:
        if self._open_db is None:
            raise StoreError(f"{self.path} is not open.")
        return self._open_db


def _entity_row(entity: EntityRecord) -> tuple[Any, ...]:
    return (
        entity.namespace.lower(),
        entity.path.lower(),
        entity.namespace,
        entity.path,
        entity.kind,
        entity.generation,
        json.dumps(dict(entity.description)),
        entity.created_at,
        entity.updated_at,
        json.dumps([uuid.hex() for uuid in entity.placement]),
    )


def _entity_record(row: tuple[Any, ...]) -> EntityRecord:
    namespace, path, kind, generation, description, created, updated, placement = row
    return EntityRecord(
        namespace=namespace,
        path=path,
        kind=kind,
        generation=generation,
        description=json.loads(description),
        created_at=created,
        updated_at=updated,
        placement=tuple(bytes.fromhex(uuid) for uuid in json.loads(placement)),
    )
