"""What a catalog is: which entities exist, and where their fragments are.

Kept apart from the messages, because a partitioned entity has fragments in many
stores. Placement is recorded when an entity is created and never computed again:
a new store changes nothing for the entities that exist. Brokers cache the catalog;
while it is away, only management stops.

Entities and their fragments are in different files, so they cannot be created or
removed in one step. The catalog names in advance which fragments may be dropped: by an
intent before the first fragment is made, and by a tombstone when an entity is removed.
Fragments that neither names are not dropped, whatever else the catalog lacks.

Every write of entities gives the catalog a new version. A broker that knows one asks
what changed since, instead of reading everything again.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from twinbus.broker.changes import StoredEntity
from twinbus.store.base import StoreError

INTENT: Final = "intent"
TOMBSTONE: Final = "tombstone"

RULES: Final = "$rules"
HASH_VERSION: Final = "$hash_version"
"""Names in a record's description that are not properties of the entity: the rules of
a partitioned subscription, and the version of the function that assigns keys to
fragments."""

REMOVALS_KEPT: Final = 10_000
"""So many paths of removed entities are remembered, as many as a namespace may have
entities. Whoever knows an older version reads everything again."""


class CatalogChanged(StoreError):
    """Another broker has written since; nothing of this write happened."""


class CatalogMoved(StoreError):
    """The catalog is elsewhere now, or not complete yet; nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityRecord:
    """One entity of a namespace."""

    namespace: str
    # As it was created; compared without case.
    path: str
    # "queue", "topic", "subscription"; "namespace" for the namespace itself.
    kind: str
    # One life of the path: a new one for every creation.
    generation: bytes
    description: Mapping[str, Any]
    created_at: int
    updated_at: int
    # Store uuid of each fragment, by index.
    placement: tuple[bytes, ...]

    @property
    def properties(self) -> dict[str, Any]:
        """What clients may set, without what the bus records beside it."""
        return {
            name: value
            for name, value in self.description.items()
            if name not in (RULES, HASH_VERSION)
        }

    @property
    def rules(self) -> list[dict[str, Any]]:
        """Of a partitioned subscription. Those of others are in their store, because a
        transaction may change rules and messages together."""
        return list(self.description.get(RULES, ()))

    def with_rules(self, rules: list[dict[str, Any]], now: int) -> "EntityRecord":
        description = {**self.description, RULES: rules}
        return replace(self, description=description, updated_at=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """Fragments of one generation in one store that belong to no entity: not yet, or
    not any more."""

    # INTENT or TOMBSTONE.
    kind: str
    namespace: str
    path: str
    generation: bytes
    store_uuid: bytes
    noted_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedEntity:
    """An entity that is gone."""

    namespace: str
    path: str
    generation: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogSnapshot:
    """All entities, as they were in one version."""

    # Of the catalog. One that was made again has another, and begins with version 1.
    identity: bytes
    version: int
    entities: list[EntityRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogChanges:
    """What a broker that knows a version has to change; each path is named once.

    What was created takes the place of whatever had its path. What was removed may
    never have been known: then whatever had its path is gone, too.
    """

    # If it is not that of the snapshot, the catalog was made again: read another one.
    identity: bytes
    # That the broker knows with these changes.
    version: int
    created: list[EntityRecord]
    # Their descriptions. Rules of subscriptions are in the stores, not in the catalog.
    updated: list[EntityRecord]
    removed: list[RemovedEntity]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRecord:
    """What a broker announces."""

    # Of one life of one process.
    broker_uuid: bytes
    # Where other brokers reach it.
    address: str
    # Rises with each announcement.
    beat: int
    # What `cluster/announcement.py` writes; the catalog does not look into it.
    description: Mapping[str, Any]


def with_properties(
    entity: EntityRecord, properties: Mapping[str, Any]
) -> EntityRecord:
    """The record with other properties, and with what the bus recorded beside them."""
    kept = {
        name: entity.description[name]
        for name in (RULES, HASH_VERSION)
        if name in entity.description
    }
    return replace(entity, description={**properties, **kept})


def unfinished(entity: EntityRecord, kind: str, now: int) -> list[Unfinished]:
    """The notes for an entity: one for each store that has fragments of it."""
    return [
        Unfinished(
            kind=kind,
            namespace=entity.namespace,
            path=entity.path,
            generation=entity.generation,
            store_uuid=store_uuid,
            noted_at=now,
        )
        for store_uuid in dict.fromkeys(entity.placement)
    ]


class Catalog(Protocol):
    """Durable entity descriptions."""

    @property
    def location(self) -> str:
        """Where its content is, for people."""
        ...

    def exists(self) -> bool:
        """There is a catalog; otherwise `open` makes one."""
        ...

    async def open(self) -> list[EntityRecord]:
        """All entities. Raises StoreUnreadable, CatalogMoved."""
        ...

    async def snapshot(self) -> CatalogSnapshot:
        """All entities, and the version that has them. The first version is 1, and
        every `put` and `remove` makes the next."""
        ...

    async def changes_since(self, version: int) -> CatalogChanges | None:
        """What `put` and `remove` changed after that version; after 0: everything.
        None if that is not known any more, or if there was no such version: then read
        a snapshot."""
        ...

    async def unfinished(self) -> list[Unfinished]:
        """Fragments that creations and removals have left to be dropped."""
        ...

    async def intend(self, intents: Sequence[Unfinished]) -> None:
        """Note, durably, that fragments will be made."""
        ...

    async def put(self, *entities: EntityRecord, known: int | None = None) -> None:
        """Create entities or replace their descriptions, durably: all of them or
        none. Their intents are fulfilled with that.

        Raises CatalogChanged if the version is not the one that is `known`: what the
        caller has checked may not be true any more."""
        ...

    async def remove(
        self, tombstones: Sequence[Unfinished], known: int | None = None
    ) -> None:
        """Forget the entities of these paths and note what is to be dropped, durably:
        all of them or none. Raises as `put`."""
        ...

    async def finish(self, dropped: Sequence[Unfinished]) -> None:
        """Nothing of these is left in their stores: forget them."""
        ...

    async def cluster_key(self) -> bytes:
        """Random, and the same for all who use this catalog. With it brokers show each
        other that they belong together."""
        ...

    async def announce(self, broker: BrokerRecord) -> None:
        """Say that a broker is there, in place of what it said before. Need not
        survive a crash of the machine. Raises StoreError, also if it would have to
        wait for another write: the next announcement follows soon."""
        ...

    async def brokers(self) -> list[BrokerRecord]:
        """All that were announced and not withdrawn, by uuid."""
        ...

    async def withdraw(self, broker_uuid: bytes) -> None:
        """The broker is gone. Does nothing if it is not announced."""
        ...

    async def close(self) -> None: ...


# --- what stores keep of entities -----------------------------------------------------


def stored_entity(entity: EntityRecord) -> StoredEntity:
    """The copy for the store that has the entity's fragments."""
    definition = {
        "namespace": entity.namespace,
        "path": entity.path,
        "kind": entity.kind,
        "description": dict(entity.description),
        "created_at": entity.created_at,
        "updated_at": entity.updated_at,
        "placement": [uuid.hex() for uuid in entity.placement],
    }
    return StoredEntity(
        generation=entity.generation,
        definition=json.dumps(definition),
    )


def entity_of(stored: StoredEntity) -> EntityRecord:
    """The entity that a store has a copy of. Raises ValueError if it cannot be read."""
    try:
        found = json.loads(stored.definition)
        return EntityRecord(
            namespace=found["namespace"],
            path=found["path"],
            kind=found["kind"],
            generation=stored.generation,
            description=dict(found["description"]),
            created_at=int(found["created_at"]),
            updated_at=int(found["updated_at"]),
            placement=tuple(bytes.fromhex(uuid) for uuid in found["placement"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"it lacks {error}") from error
