"""The catalog in a PostgreSQL schema of its own, for the brokers of many machines.

It has no owner: several brokers write it, each change in one transaction that locks the
row of the version first. So versions are in the order of the commits, and whoever has
read one knows all that came before. What is read together is read in one snapshot.

A connection that was lost is made again by the next request. A change whose answer was
lost may have happened: all changes can be made twice.
"""

import asyncio
import json
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, final

import psycopg

from twinbus.store.base import StoreError, StoreInUse
from twinbus.store.catalog import (
    REMOVALS_KEPT,
    BrokerRecord,
    CatalogChanged,
    CatalogChanges,
    CatalogMoved,
    CatalogSnapshot,
    EntityRecord,
    RemovedEntity,
    Unfinished,
)
from twinbus.store.catalog_move import CatalogContent, CatalogMarks, check_marks
from twinbus.store.postgres_brokers import broker_record, refuse_to_leave_behind
from twinbus.store.postgres_errors import (
    ServerLost,
    as_unknown,
    connecting,
    reading,
    refusal,
)
from twinbus.store.postgres_schema import PostgresFormat, open_schema
from twinbus.store.postgres_session import (
    PostgresSession,
    Rows,
    Step,
    connect,
    connect_now,
)
from twinbus.store.postgres_url import PostgresUrl, parse_postgres_url
from twinbus.store.postgres_versions import CATALOG_FORMAT
from twinbus.store.statements import named_statements

_SQL: Final = named_statements("postgres_catalog.sql")

DEFAULT_SCHEMA: Final = "twinbus_catalog"

FORMAT: Final = PostgresFormat(
    kind="catalog",
    migrations="postgres_catalog_migrations",
    version=CATALOG_FORMAT,
    tables=frozenset(
        {"twinbus_meta", "entity", "removed_entity", "broker", "unfinished"}
    ),
)

_REFUSE_MOVED: Final[Step] = (_SQL["refuse_moved"], ())
_ONE_SNAPSHOT: Final = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"


@final
class PostgresCatalog:
    """Entity descriptions in a schema, which is made when it is first opened."""

    def __init__(self, url: PostgresUrl | str) -> None:
        if isinstance(url, str):
            url = parse_postgres_url(url, DEFAULT_SCHEMA)
        self._url: PostgresUrl = url
        self._session: PostgresSession | None = None
        self._is_open: bool = False
        # Requests of this broker take turns.
        self._asking = asyncio.Lock()

    @property
    def location(self) -> str:
        return self._url.location

    def exists(self) -> bool:
        """Raises StoreError if the server is away."""
        asked = f"{self._url.schema}.twinbus_meta"
        with (
            connecting(self.location),
            connect_now(self._url, "twinbus catalog") as db,
        ):
            found = db.execute("SELECT to_regclass(%s) IS NOT NULL", (asked,))
            return found.fetchone() == (True,)

    async def open(self) -> list[EntityRecord]:
        marks = await self.open_marked()
        try:
            check_marks(self.location, marks)
            (rows,) = await self._read([(_SQL["entities"], ())])
        except BaseException:
            await self.close()
            raise
        return [_entity_record(row) for row in rows]

    async def open_marked(self) -> CatalogMarks:
        if self._is_open:
            raise StoreInUse(f"{self.location} is open already.")
        session = await connect(self._url, "twinbus catalog")
        check = partial(refuse_to_leave_behind, session, self.location, FORMAT.version)
        try:
            await open_schema(session, self._url, FORMAT, before_migration=check)
            with reading(self.location):
                ((moved_to, moved_from),) = await session.rows(_SQL["marks"])
        except BaseException:
            await session.close()
            raise
        self._session, self._is_open = session, True
        return CatalogMarks(moved_to=moved_to, moved_from=moved_from)

    async def close(self) -> None:
        self._is_open = False
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    # --- reading --------------------------------------------------------------

    async def unfinished(self) -> list[Unfinished]:
        (rows,) = await self._read([(_SQL["unfinished"], ())])
        return [_unfinished(row) for row in rows]

    async def snapshot(self) -> CatalogSnapshot:
        versions, rows = await self._read(
            [(_SQL["versions"], ()), (_SQL["entities"], ())]
        )
        version, _, identity = versions[0]
        return CatalogSnapshot(
            identity=identity,
            version=version,
            entities=[_entity_record(row) for row in rows],
        )

    async def changes_since(self, version: int) -> CatalogChanges | None:
        names = {"version": version}
        versions, created, updated, removed = await self._read(
            [
                (_SQL["versions"], ()),
                (_SQL["created_since"], names),
                (_SQL["updated_since"], names),
                (_SQL["removed_since"], names),
            ]
        )
        last, forgotten_through, identity = versions[0]
        if not forgotten_through <= version <= last:
            return None
        return CatalogChanges(
            identity=identity,
            version=last,
            created=[_entity_record(row) for row in created],
            updated=[_entity_record(row) for row in updated],
            removed=[_removed_entity(row) for row in removed],
        )

    async def _read(self, steps: list[Step]) -> list[Rows]:
        """Of one moment, though others write. Raises StoreError."""
        steps = [(_ONE_SNAPSHOT, ()), *steps]
        async with self._asking:
            with reading(self.location):
                try:
                    answers = await self._transaction(steps)
                except ServerLost:
                    answers = await self._transaction(steps)
        return answers[1:]

    async def _transaction(self, steps: list[Step]) -> list[Rows]:
        session = await self._connected()
        try:
            return await session.transaction(steps)
        except asyncio.CancelledError:
            # The next one would get what this one asked for.
            session.end()
            raise

    async def _connected(self) -> PostgresSession:
        if not self._is_open:
            raise StoreError(f"{self.location} is not open.")
        if self._session is None or not self._session.is_open:
            self._session = await connect(self._url, "twinbus catalog")
        return self._session

    # --- writing --------------------------------------------------------------

    async def intend(self, intents: Sequence[Unfinished]) -> None:
        await self._write([(_SQL["lock"], ()), _REFUSE_MOVED, *_notes(intents)])

    async def put(self, *entities: EntityRecord, known: int | None = None) -> None:
        steps = _next_version(known)
        for entity in entities:
            row = _entity_row(entity)
            steps.append((_SQL["put_entity"], row))
            steps.append((_SQL["forget_removal"], row[:2]))
            steps.append((_SQL["finish_generation"], (entity.generation,)))
        await self._write(steps)

    async def remove(
        self, tombstones: Sequence[Unfinished], known: int | None = None
    ) -> None:
        steps = _next_version(known)
        for one in tombstones:
            key = (one.namespace.lower().encode(), one.path.lower().encode())
            steps.append((_SQL["note_removal"], key))
            steps.append((_SQL["remove_entity"], key))
        steps.append((_SQL["forget_through"], (REMOVALS_KEPT,)))
        steps.append((_SQL["forget_removals"], ()))
        await self._write([*steps, *_notes(tombstones)])

    async def finish(self, dropped: Sequence[Unfinished]) -> None:
        finished: list[Step] = [
            (_SQL["finish"], (one.generation, one.store_uuid)) for one in dropped
        ]
        await self._write([(_SQL["lock"], ()), *finished])

    async def _write(self, steps: list[Step]) -> None:
        """Raises StoreFull, CommitFailed, CommitUnknown."""
        async with self._asking:
            try:
                await self._transaction(steps)
            except psycopg.errors.DivisionByZero as error:
                raise CatalogChanged(
                    f"{self.location} has another version than was known."
                ) from error
            except psycopg.errors.NumericValueOutOfRange as error:
                raise CatalogMoved(
                    f"The catalog {self.location} was moved meanwhile."
                ) from error
            except psycopg.Error as error:
                raise refusal(self.location, error) from error
            except ServerLost as error:
                raise as_unknown(error) from error

    # --- brokers --------------------------------------------------------------

    async def cluster_key(self) -> bytes:
        (rows,) = await self._read([(_SQL["cluster_key"], ())])
        key: bytes = rows[0][0]
        return key

    def root_key(self, proposed: str) -> str:
        with (
            connecting(self.location),
            connect_now(self._url, "twinbus catalog") as db,
        ):
            if proposed:
                db.execute(_SQL["propose_root_key"], (proposed,))
            found = db.execute(_SQL["root_key"]).fetchone()
        key: str = "" if found is None else found[0]
        return key

    async def announce(self, broker: BrokerRecord) -> None:
        description = json.dumps(dict(broker.description))
        row = (broker.broker_uuid, broker.address, broker.beat, description)
        await self._write([(_SQL["without_sync"], ()), (_SQL["announce"], row)])

    async def brokers(self) -> list[BrokerRecord]:
        (rows,) = await self._read([(_SQL["brokers"], ())])
        return [broker_record(row) for row in rows]

    async def withdraw(self, broker_uuid: bytes) -> None:
        await self._write([(_SQL["withdraw"], (broker_uuid,))])

    # --- moves ----------------------------------------------------------------

    async def content(self) -> CatalogContent:
        names = ("versions", "cluster_key", "root_key", "entities", "unfinished")
        versions, cluster_keys, root_keys, entities, noted = await self._read(
            [(_SQL[name], ()) for name in names]
        )
        version, _, identity = versions[0]
        return CatalogContent(
            identity=identity,
            version=version,
            entities=[_entity_record(row) for row in entities],
            unfinished=[_unfinished(row) for row in noted],
            cluster_key=cluster_keys[0][0],
            root_key=root_keys[0][0],
        )

    async def replace_content(self, content: CatalogContent, moved_from: str) -> None:
        meta = {
            "identity": content.identity,
            "version": content.version,
            "cluster_key": content.cluster_key,
            "root_key": content.root_key,
        }
        cleared = ("entities", "removals", "unfinished", "brokers")
        steps: list[Step] = [(_SQL["lock"], ())]
        steps += [(_SQL[f"clear_{name}"], ()) for name in cleared]
        steps.append((_SQL["put_meta"], meta))
        steps += [(_SQL["put_entity"], _entity_row(one)) for one in content.entities]
        steps += _notes(content.unfinished)
        await self._write([*steps, (_SQL["mark_arriving"], (moved_from,))])

    async def mark_moved(self, moved_to: str) -> None:
        await self._write([(_SQL["mark_moved"], (moved_to,))])

    async def mark_arrived(self) -> None:
        await self._write([(_SQL["mark_arrived"], ())])


def _next_version(known: int | None) -> list[Step]:
    """The steps that begin a write."""
    steps: list[Step] = [(_SQL["next_version"], ()), _REFUSE_MOVED]
    if known is not None:
        steps.append((_SQL["check_version"], (known,)))
    return steps


def _notes(noted: Sequence[Unfinished]) -> list[Step]:
    return [
        (
            _SQL["put_unfinished"],
            (
                *(one.kind, one.namespace.encode(), one.path.encode()),
                *(one.generation, one.store_uuid, one.noted_at),
            ),
        )
        for one in noted
    ]


def _entity_row(entity: EntityRecord) -> tuple[Any, ...]:
    return (
        entity.namespace.lower().encode(),
        entity.path.lower().encode(),
        entity.namespace.encode(),
        entity.path.encode(),
        entity.kind,
        entity.generation,
        json.dumps(dict(entity.description)),
        entity.created_at,
        entity.updated_at,
        " ".join(uuid.hex() for uuid in entity.placement),
    )


def _entity_record(row: tuple[Any, ...]) -> EntityRecord:
    namespace, path, kind, generation, description, created, updated, placement = row
    return EntityRecord(
        namespace=namespace.decode(),
        path=path.decode(),
        kind=kind,
        generation=generation,
        description=json.loads(description),
        created_at=created,
        updated_at=updated,
        placement=tuple(bytes.fromhex(uuid) for uuid in placement.split()),
    )


def _removed_entity(row: tuple[Any, ...]) -> RemovedEntity:
    namespace, path, generation = row
    return RemovedEntity(
        namespace=namespace.decode(), path=path.decode(), generation=generation
    )


def _unfinished(row: tuple[Any, ...]) -> Unfinished:
    kind, namespace, path, generation, store_uuid, noted_at = row
    return Unfinished(
        kind=kind,
        namespace=namespace.decode(),
        path=path.decode(),
        generation=generation,
        store_uuid=store_uuid,
        noted_at=noted_at,
    )
