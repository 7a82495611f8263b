"""The catalog in a SQLite file of its own, for all brokers of one machine.

It has no owner: each change is one short transaction, and each process that opens the
file reads what others have changed. It holds access keys, so only its user can read
the file.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, final

from twinbus.store.base import (
    FormatTooNew,
    StoreError,
    StoreInUse,
    StoreUnreadable,
)
from twinbus.store.catalog import (
    REMOVALS_KEPT,
    BrokerRecord,
    CatalogChanged,
    CatalogChanges,
    CatalogSnapshot,
    EntityRecord,
    RemovedEntity,
    Unfinished,
)
from twinbus.store.catalog_move import CatalogContent, CatalogMarks, check_marks
from twinbus.store.sqlite_brokers import SqliteBrokers, refuse_to_leave_behind
from twinbus.store.sqlite_errors import Busy, locked, reading, rolled_back, transaction
from twinbus.store.sqlite_file import (
    SqliteFormat,
    connect_to_write,
    migrate,
    open_file,
)
from twinbus.store.statements import named_statements

_SQL: Final = named_statements("sqlite_catalog.sql")

FORMAT: Final = SqliteFormat(
    noun="catalog",
    application_id=0x74776263,  # "twbc"
    migrations="catalog_migrations",
    version=6,
    tables=frozenset({"meta", "entity", "removed_entity", "broker", "unfinished"}),
)

_ADVICE: Final = (
    "If there is no backup, 'twinbus recover' makes the catalog anew from what the "
    "message store knows."
)


@final
class SqliteCatalog:
    """Entity descriptions in a file, which is made when it is first opened."""

    def __init__(self, path: Path | str) -> None:
        self.path: Path = Path(path)
        # The connection while the catalog is open.
        self._open_db: sqlite3.Connection | None = None
        # Made with the first use.
        self._announced: SqliteBrokers | None = None

    @property
    def location(self) -> str:
        return str(self.path)

    def exists(self) -> bool:
        return self.path.exists()

    async def open(self) -> list[EntityRecord]:
        marks = await self.open_marked()
        try:
            check_marks(self.location, marks)
            with reading(self.path):
                rows = self._db.execute(_SQL["entities"]).fetchall()
        except BaseException:
            await self.close()
            raise
        return [_entity_record(row) for row in rows]

    async def open_marked(self) -> CatalogMarks:
        if self._open_db is not None:
            raise StoreInUse(f"{self.path} is open already.")
        try:
            return self._open()
        except FormatTooNew:
            raise
        except StoreUnreadable as error:
            raise StoreUnreadable(f"{error} {_ADVICE}") from error

    def _open(self) -> CatalogMarks:
        db = open_file(self.path, FORMAT)
        try:
            with transaction(db, self.path), reading(self.path):
                refuse_to_leave_behind(db, self.path, FORMAT.version)
                migrate(db, self.path, FORMAT)
                marks = _marks(db)
        except Busy as error:
            db.close()
            raise locked(self.path) from error
        except BaseException:
            db.close()
            raise
        self._open_db = db
        return marks

    def survey(self) -> tuple[list[EntityRecord], list[Unfinished]]:
        """What is in the file, which stays as it is. Raises as `open` does."""
        db = open_file(self.path, FORMAT)
        try:
            with rolled_back(db, self.path):
                migrate(db, self.path, FORMAT, keeps_copy=False)
                check_marks(self.location, _marks(db))
                entities = db.execute(_SQL["entities"]).fetchall()
                noted = db.execute(_SQL["unfinished"]).fetchall()
        except Busy as error:
            raise locked(self.path) from error
        finally:
            db.close()
        return [_entity_record(row) for row in entities], list(map(_unfinished, noted))

    async def unfinished(self) -> list[Unfinished]:
        with reading(self.path):
            rows = self._db.execute(_SQL["unfinished"]).fetchall()
        return [_unfinished(row) for row in rows]

    async def intend(self, intents: Sequence[Unfinished]) -> None:
        with transaction(self._db, self.path):
            check_marks(self.location, _marks(self._db))
            self._note(intents)

    def _note(self, noted: Sequence[Unfinished]) -> None:
        rows = [
            (
                *(one.kind, one.namespace, one.path),
                *(one.generation, one.store_uuid, one.noted_at),
            )
            for one in noted
        ]
        self._db.executemany(_SQL["put_unfinished"], rows)

    async def snapshot(self) -> CatalogSnapshot:
        with self._one_moment() as db:
            version, _, identity = db.execute(_SQL["versions"]).fetchone()
            rows = db.execute(_SQL["entities"]).fetchall()
        return CatalogSnapshot(
            identity=identity,
            version=version,
            entities=[_entity_record(row) for row in rows],
        )

    async def changes_since(self, version: int) -> CatalogChanges | None:
        with self._one_moment() as db:
            last, forgotten_through, identity = db.execute(_SQL["versions"]).fetchone()
            if not forgotten_through <= version <= last:
                return None
            created, updated, removed = (
                db.execute(_SQL[name], (version,)).fetchall()
                for name in ("created_since", "updated_since", "removed_since")
            )
        return CatalogChanges(
            identity=identity,
            version=last,
            created=[_entity_record(row) for row in created],
            updated=[_entity_record(row) for row in updated],
            removed=[_removed_entity(row) for row in removed],
        )

    @contextmanager
    def _one_moment(self) -> Iterator[sqlite3.Connection]:
        """What is read here is of one version, though others write."""
        db = self._db
        with reading(self.path):
            db.execute("BEGIN")
            try:
                yield db
            finally:
                # Some errors make SQLite roll back by itself.
                if db.in_transaction:
                    db.execute("ROLLBACK")

    async def put(self, *entities: EntityRecord, known: int | None = None) -> None:
        with transaction(self._db, self.path):
            version = self._next_version(known)
            for entity in entities:
                row = _entity_row(entity)
                self._db.execute(_SQL["put_entity"], (*row, version))
                self._db.execute(_SQL["forget_removal"], row[:2])
                self._db.execute(_SQL["finish_generation"], (entity.generation,))

    async def remove(
        self, tombstones: Sequence[Unfinished], known: int | None = None
    ) -> None:
        keys = [(one.namespace.lower(), one.path.lower()) for one in tombstones]
        with transaction(self._db, self.path):
            version = self._next_version(known)
            noted = [(*key, version) for key in keys]
            self._db.executemany(_SQL["note_removal"], noted)
            self._db.executemany(_SQL["remove_entity"], keys)
            self._db.execute(_SQL["forget_through"], (REMOVALS_KEPT,))
            self._db.execute(_SQL["forget_removals"])
            self._note(tombstones)

    def _next_version(self, known: int | None) -> int:
        """Inside a transaction. Raises CatalogChanged, CatalogMoved."""
        check_marks(self.location, _marks(self._db))
        self._db.execute(_SQL["next_version"])
        version: int = self._db.execute(_SQL["versions"]).fetchone()[0]
        if known is not None and known != version - 1:
            raise CatalogChanged(
                f"{self.path} has version {version - 1}, and {known} was known."
            )
        return version

    async def finish(self, dropped: Sequence[Unfinished]) -> None:
        keys = [(one.generation, one.store_uuid) for one in dropped]
        with transaction(self._db, self.path):
            self._db.executemany(_SQL["finish"], keys)

    async def cluster_key(self) -> bytes:
        with reading(self.path):
            key: bytes = self._db.execute(_SQL["cluster_key"]).fetchone()[0]
        return key

    def root_key(self, proposed: str) -> str:
        with reading(self.path), closing(connect_to_write(self.path)) as db:
            if proposed:
                db.execute(_SQL["propose_root_key"], (proposed,))
            key: str = db.execute(_SQL["root_key"]).fetchone()[0]
        return key

    # --- moves ----------------------------------------------------------------

    async def content(self) -> CatalogContent:
        with self._one_moment() as db:
            version, _, identity = db.execute(_SQL["versions"]).fetchone()
            (cluster_key,) = db.execute(_SQL["cluster_key"]).fetchone()
            (root_key,) = db.execute(_SQL["root_key"]).fetchone()
            entities = db.execute(_SQL["entities"]).fetchall()
            noted = db.execute(_SQL["unfinished"]).fetchall()
        return CatalogContent(
            identity=identity,
            version=version,
            entities=[_entity_record(row) for row in entities],
            unfinished=[_unfinished(row) for row in noted],
            cluster_key=cluster_key,
            root_key=root_key,
        )

    async def replace_content(self, content: CatalogContent, moved_from: str) -> None:
        db, version = self._db, content.version
        meta = (content.identity, version, content.cluster_key, content.root_key)
        with transaction(db, self.path):
            for name in ("entities", "removals", "unfinished", "brokers"):
                db.execute(_SQL[f"clear_{name}"])
            db.execute(_SQL["put_meta"], meta)
            for entity in content.entities:
                db.execute(_SQL["put_entity"], (*_entity_row(entity), version))
            self._note(content.unfinished)
            db.execute(_SQL["mark_arriving"], (moved_from,))

    async def mark_moved(self, moved_to: str) -> None:
        with transaction(self._db, self.path):
            self._db.execute(_SQL["mark_moved"], (moved_to,))

    async def mark_arrived(self) -> None:
        with transaction(self._db, self.path):
            self._db.execute(_SQL["mark_arrived"])

    # --- brokers --------------------------------------------------------------

    async def announce(self, broker: BrokerRecord) -> None:
        self._brokers().announce(broker)

    async def brokers(self) -> list[BrokerRecord]:
        return self._brokers().all()

    async def withdraw(self, broker_uuid: bytes) -> None:
        self._brokers().withdraw(broker_uuid)

    def _brokers(self) -> SqliteBrokers:
        if self._open_db is None:
            raise StoreError(f"{self.path} is not open.")
        if self._announced is None:
            self._announced = SqliteBrokers(self.path)
        return self._announced

    async def close(self) -> None:
        if self._announced is not None:
            self._announced.close()
            self._announced = None
        if self._open_db is not None:
            with suppress(sqlite3.Error):
                self._open_db.close()
            self._open_db = None

    @property
    def _db(self) -> sqlite3.Connection:
        if self._open_db is None:
            raise StoreError(f"{self.path} is not open.")
        return self._open_db


def _marks(db: sqlite3.Connection) -> CatalogMarks:
    moved_to, moved_from = db.execute(_SQL["marks"]).fetchone()
    return CatalogMarks(moved_to=moved_to, moved_from=moved_from)


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


def _removed_entity(row: tuple[Any, ...]) -> RemovedEntity:
    namespace, path, generation = row
    return RemovedEntity(namespace=namespace, path=path, generation=generation)


def _unfinished(row: tuple[Any, ...]) -> Unfinished:
    kind, namespace, path, generation, store_uuid, noted_at = row
    return Unfinished(
        kind=kind,
        namespace=namespace,
        path=path,
        generation=generation,
        store_uuid=store_uuid,
        noted_at=noted_at,
    )
