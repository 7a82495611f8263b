"""The catalog in memory: for tests, and the model of the others."""

import json
import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import final

from twinbus.store.base import StoreError, StoreInUse
from twinbus.store.catalog import (
    BrokerRecord,
    CatalogChanged,
    CatalogChanges,
    CatalogSnapshot,
    EntityRecord,
    Unfinished,
)
from twinbus.store.memory_catalog_versions import CatalogVersions


@final
class MemoryCatalog:
    """Entity descriptions that last as long as this object."""

    def __init__(self) -> None:
        # By namespace and path in lower case.
        self._entities: dict[tuple[str, str], EntityRecord] = {}
        self._versions: CatalogVersions = CatalogVersions()
        # By generation and store.
        self._unfinished: dict[tuple[bytes, bytes], Unfinished] = {}
        self._cluster_key: bytes = secrets.token_bytes(32)
        # By uuid.
        self._brokers: dict[bytes, BrokerRecord] = {}
        self._is_open: bool = False

    @property
    def location(self) -> str:
        return "the catalog in memory"

    def exists(self) -> bool:
        return True

    async def open(self) -> list[EntityRecord]:
        if self._is_open:
            raise StoreInUse("The catalog in memory is open already.")
        self._is_open = True
        return [entity for _, entity in sorted(self._entities.items())]

    async def snapshot(self) -> CatalogSnapshot:
        self._check_open()
        return CatalogSnapshot(
            identity=self._versions.identity,
            version=self._versions.last,
            entities=[entity for _, entity in sorted(self._entities.items())],
        )

    async def changes_since(self, version: int) -> CatalogChanges | None:
        self._check_open()
        return self._versions.changes_since(version, self._entities)

    async def unfinished(self) -> list[Unfinished]:
        self._check_open()
        return [noted for _, noted in sorted(self._unfinished.items())]

    async def intend(self, intents: Sequence[Unfinished]) -> None:
        self._check_open()
        self._note(intents)

    def _note(self, noted: Sequence[Unfinished]) -> None:
        for one in noted:
            self._unfinished[one.generation, one.store_uuid] = one

    async def put(self, *entities: EntityRecord, known: int | None = None) -> None:
        self._check_open()
        self._check_version(known)
        self._versions.begin()
        for entity in entities:
            # Kept as JSON elsewhere, so it must survive that here too.
            description = json.loads(json.dumps(dict(entity.description)))
            key = (entity.namespace.lower(), entity.path.lower())
            self._versions.note_put(key, self._entities.get(key), entity)
            self._entities[key] = replace(entity, description=description)
            for noted in list(self._unfinished):
                if noted[0] == entity.generation:
                    del self._unfinished[noted]

    async def remove(
        self, tombstones: Sequence[Unfinished], known: int | None = None
    ) -> None:
        self._check_open()
        self._check_version(known)
        self._versions.begin()
        for one in tombstones:
            key = (one.namespace.lower(), one.path.lower())
            entity = self._entities.pop(key, None)
            if entity is not None:
                self._versions.note_removal(key, entity)
        self._versions.forget()
        self._note(tombstones)

    async def finish(self, dropped: Sequence[Unfinished]) -> None:
        self._check_open()
        for one in dropped:
            self._unfinished.pop((one.generation, one.store_uuid), None)

    def _check_version(self, known: int | None) -> None:
        if known is not None and known != self._versions.last:
            raise CatalogChanged(
                f"The catalog in memory has version {self._versions.last}, and {known} "
                "was known."
            )

    async def cluster_key(self) -> bytes:
        self._check_open()
        return self._cluster_key

    async def announce(self, broker: BrokerRecord) -> None:
        self._check_open()
        description = json.loads(json.dumps(dict(broker.description)))
        self._brokers[broker.broker_uuid] = replace(broker, description=description)

    async def brokers(self) -> list[BrokerRecord]:
        self._check_open()
        return [broker for _, broker in sorted(self._brokers.items())]

    async def withdraw(self, broker_uuid: bytes) -> None:
        self._check_open()
        self._brokers.pop(broker_uuid, None)

    async def close(self) -> None:
        self._is_open = False

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreError("The catalog in memory is not open.")
