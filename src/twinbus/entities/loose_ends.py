"""Completes changes that are done in the catalog and not in the store, or vice versa.

Catalog and store are separate files, so each change of an entity takes several commits:

creation   an intent in the catalog; fragments and a record in the store; the entity
           in place of the intent
update     the entity in the catalog; the record in the store
removal    a tombstone in place of the entity; fragments and record dropped; the
           tombstone removed

A change that is interrupted between two steps is completed here, or at the next start.
Where the two differ, the catalog is right; the store's records are used if it is lost.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterable

from twinbus.broker.changes import StoredEntity
from twinbus.entities.strangers import counted
from twinbus.errors import ServiceBusError
from twinbus.owner.owners import Owners
from twinbus.owner.store_owner import StoreOwner
from twinbus.store.base import StoreError
from twinbus.store.catalog import (
    Catalog,
    EntityRecord,
    Unfinished,
    entity_of,
    stored_entity,
)

_log = logging.getLogger(__name__)


class LooseEnds:
    """Completes the changes of namespaces and their entities."""

    def __init__(self, catalog: Catalog, owners: Owners) -> None:
        self._catalog = catalog
        self._owners = owners
        # Their fragments are dropped; their notes are still in the catalog.
        self._dropped: set[Unfinished] = set()
        # Records of the catalog that a store may not have yet, by generation and store.
        self._records: dict[tuple[bytes, bytes], EntityRecord] = {}
        self._tying: asyncio.Task[None] | None = None

    def drop(self, noted: Iterable[Unfinished]) -> None:
        """Drop their fragments with the next commit, then remove their notes. In a
        store of another broker that one does it."""
        for one in noted:
            self._drop(one)
            if not self._is_elsewhere(one.store_uuid):
                self._dropped.add(one)
            # A dropped entity must not be recorded again.
            self._records.pop((one.generation, one.store_uuid), None)

    def _drop(self, one: Unfinished) -> None:
        owner = self._owners.find(one.store_uuid)
        if owner is not None:
            owner.table.drop(one.generation, owner.changes)
            if not one.path:
                # A namespace has no fragments, but a copy of its record.
                owner.changes.entities_removed.append(one.generation)

    def record(self, entity: EntityRecord) -> None:
        """The catalog has this record; write it to its stores, too."""
        for store_uuid in dict.fromkeys(entity.placement):
            if not self._is_elsewhere(store_uuid):
                self._records[entity.generation, store_uuid] = entity

    def _is_elsewhere(self, store_uuid: bytes) -> bool:
        """Another broker has the store, or none: whoever takes it finds by itself what
        is to be done."""
        owner = self._owners.find(store_uuid)
        return owner is None or (owner.is_shared and not owner.is_serving)

    def leave(self, store_uuid: bytes) -> None:
        """The store has another owner now, which does what is left to do."""
        self._dropped = {one for one in self._dropped if one.store_uuid != store_uuid}
        for key in [key for key in self._records if key[1] == store_uuid]:
            del self._records[key]

    def renew(
        self,
        owner: StoreOwner,
        records: Iterable[EntityRecord],
        stored: Iterable[StoredEntity],
    ) -> None:
        """At the start: write records of the catalog to a store where they differ from
        those `stored` in it."""
        known = {one.generation: one for one in stored}
        uuid, table = owner.store_uuid, owner.table
        newer_count = 0
        for record in records:
            # The namespace itself has no fragments.
            is_held = bool(table.records_of(record.generation)) if record.path else True
            if not is_held or uuid not in record.placement:
                continue
            before = known.get(record.generation)
            if before != stored_entity(record):
                self._records[record.generation, uuid] = record
                newer_count += before is not None and _is_newer(before, record)
        if newer_count:
            _log.warning(
                "the catalog %s is older than the last change of %s: the catalog is "
                "used",
                self._catalog.location,
                counted(newer_count, "entity"),
            )

    def tick(self) -> None:
        """Continue, unless a task already does."""
        is_under_way = self._tying is not None and not self._tying.done()
        if (self._dropped or self._records) and not is_under_way:
            self._tying = asyncio.create_task(self._tie(), name="loose ends")

    async def _tie(self) -> None:
        for owner in self._owners.serving():
            try:
                await self._tie_in(owner)
            except (ServiceBusError, StoreError) as error:
                _log.warning("store and catalog differ, trying again later: %s", error)

    async def _tie_in(self, owner: StoreOwner) -> None:
        """Complete the changes that concern one store."""
        uuid = owner.store_uuid
        dropped = [one for one in self._dropped if one.store_uuid == uuid]
        records = [one for key, one in self._records.items() if key[1] == uuid]
        if not dropped and not records:
            return
        # Again: the commit that should have dropped them may have failed.
        for one in dropped:
            self._drop(one)
        owner.changes.entities_put.extend(stored_entity(record) for record in records)
        await owner.durable()
        if dropped:
            await self._catalog.finish(dropped)
        self._dropped.difference_update(dropped)
        for record in records:
            if self._records.get((record.generation, uuid)) is record:
                del self._records[record.generation, uuid]

    async def stop(self) -> None:
        """Stop. The next start completes the rest."""
        if self._tying is not None:
            self._tying.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._tying


def _is_newer(stored: StoredEntity, record: EntityRecord) -> bool:
    try:
        return entity_of(stored).updated_at > record.updated_at
    except ValueError:
        return False
