"""Takes the stores of a process into service: checks what they hold, then begins.

A store that is there is taken in at the start. One of several may be away then: its
entities are entered, unavailable, and it is taken in when it is opened. For that the
catalog remembers where each store was last: in the record of the namespace, of which
every store has a copy. By this copy a store also shows to which catalog it belongs.

Nothing is written before all checks have passed.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from twinbus.broker.changes import StoredEntity
from twinbus.entities.record_description import NAMESPACE
from twinbus.entities.strangers import (
    Strangers,
    check_known,
    find_strangers,
    held_by_namespace,
)
from twinbus.owner.owners import Owners
from twinbus.owner.store_owner import StoreOwner
from twinbus.store.base import StoreUnreadable
from twinbus.store.catalog import (
    INTENT,
    Catalog,
    EntityRecord,
    Unfinished,
    entity_of,
    stored_entity,
)

if TYPE_CHECKING:
    from twinbus.entities.namespaces import Namespaces

_log = logging.getLogger(__name__)

STORES: Final = "stores"
"""In the description of that record: locations by the UUID of the store."""


class StoreEntries:
    """Of the stores that the namespaces of a process use."""

    def __init__(
        self, namespaces: "Namespaces", catalog: Catalog, owners: Owners
    ) -> None:
        self._namespaces = namespaces
        self._catalog = catalog
        self._owners = owners

    # --- checks ---------------------------------------------------------------

    def check_without_catalog(
        self, owner: StoreOwner, stored: Sequence[StoredEntity]
    ) -> None:
        """Raises CatalogIncomplete, StoreUnreadable."""
        unknown = owner.table.orphans()
        self._check_known(owner, unknown, stored, has_catalog=False)
        self._check_catalog(owner, (), stored)

    def check(
        self,
        owner: StoreOwner,
        stored: Sequence[StoredEntity],
        records: Sequence[EntityRecord],
        noted: Iterable[Unfinished],
    ) -> Strangers:
        """Raises CatalogIncomplete, StoreUnreadable."""
        self._check_catalog(owner, records, stored)
        for entity in self._namespaces.entities():
            entity.check_placement(owner.table)
        found = find_strangers(
            owner.table,
            records,
            noted,
            served={one.name.lower() for one in self._namespaces},
            store_uuid=owner.store_uuid,
        )
        self._check_known(owner, found.unknown, stored, has_catalog=True)
        return found

    def _check_known(
        self,
        owner: StoreOwner,
        unknown: set[bytes],
        stored: Sequence[StoredEntity],
        *,
        has_catalog: bool,
    ) -> None:
        check_known(
            unknown,
            owner.table,
            stored,
            store=owner.store.location,
            catalog=self._catalog.location,
            has_catalog=has_catalog,
        )

    def _check_catalog(
        self,
        owner: StoreOwner,
        records: Iterable[EntityRecord],
        stored: Iterable[StoredEntity],
    ) -> None:
        """One of several stores must be new, or belong to this catalog. A store alone
        may have got a new catalog, if it holds nothing."""
        if not self._owners.are_several:
            return
        theirs = {one.generation for one in stored if _is_of_namespace(one)}
        ours = {record.generation for record in records if record.kind == NAMESPACE}
        if theirs and not theirs & ours:
            raise StoreUnreadable(
                f"The store {owner.store.location} belongs to another catalog than "
                f"{self._catalog.location}. Nothing was changed. Start the bus with "
                "that catalog (--data or --catalog), or name another store. If the "
                "catalog is lost, 'twinbus recover' makes it anew from all its stores."
            )

    # --- taking in ------------------------------------------------------------

    def begin(
        self,
        owner: StoreOwner,
        found: Strangers,
        stored: Sequence[StoredEntity],
        records: Sequence[EntityRecord],
    ) -> None:
        """The checks have passed: do what is left to do in the store."""
        owner.table.keep(found.kept)
        for held in held_by_namespace(found.kept, records, owner.table):
            _log.warning(
                "the store also holds %s, which this bus does not serve: they are "
                "left unchanged",
                held,
            )
        self._namespaces.ground.loose_ends.drop(found.leftovers)
        self._namespaces.ground.loose_ends.renew(owner, records, stored)
        if self._owners.are_several:
            self._mark(owner, stored, records)

    def _mark(
        self,
        owner: StoreOwner,
        stored: Sequence[StoredEntity],
        records: Sequence[EntityRecord],
    ) -> None:
        """With its first commit the store shows to which catalog it belongs."""
        for record in records:
            copy = stored_entity(record)
            is_here = owner.store_uuid in record.placement
            if record.kind == NAMESPACE and is_here and copy not in stored:
                owner.changes.entities_put.append(copy)

    async def end_creations(self, owner: StoreOwner) -> None:
        """What is being created in a store that was with another broker either is in
        the catalog after this, or never will be. Raises StoreError."""
        noted = await self._catalog.unfinished()
        if owner.is_shared and any(_is_intent_in(one, owner) for one in noted):
            # A predecessor that still runs cannot finish its creations any more: the
            # catalog refuses those who do not know the last version.
            await self._catalog.put()

    async def check_late(
        self, owner: StoreOwner, stored: list[StoredEntity]
    ) -> Callable[[], None]:
        """A store that was away at the start is there. Raises StoreError; returns what
        is to be done when it serves."""
        await self._namespaces.ground.transfer_log.take_in(owner)
        noted = await self._catalog.unfinished()
        records = (await self._catalog.snapshot()).entities
        found = self.check(owner, stored, records, noted)
        return partial(self._begin_late, owner, found, stored, records)

    def _begin_late(
        self,
        owner: StoreOwner,
        found: Strangers,
        stored: Sequence[StoredEntity],
        records: Sequence[EntityRecord],
    ) -> None:
        # What was left to do there is found anew.
        self._namespaces.ground.loose_ends.leave(owner.store_uuid)
        self.begin(owner, found, stored, records)
        for namespace in self._namespaces:
            for entity in namespace.entities():
                if entity.is_in(owner.table):
                    namespace.forwarders.renew(entity)

    # --- memory ---------------------------------------------------------------

    def noted_in(self, record: EntityRecord) -> EntityRecord:
        """The record of the namespace, with all stores that are here."""
        if not self._owners.are_several:
            return record
        here = {owner.store_uuid.hex(): owner.store.location for owner in self._owners}
        before = _locations(record)
        # What was at a place before another store was put there is gone.
        kept = {
            uuid: location
            for uuid, location in before.items()
            if uuid in here or location not in here.values()
        }
        uuids = [owner.store_uuid for owner in self._owners]
        return replace(
            record,
            description={**record.description, STORES: {**kept, **here}},
            placement=tuple(dict.fromkeys((*record.placement, *uuids))),
        )


def remembered_stores(records: Iterable[EntityRecord]) -> dict[str, bytes]:
    """The UUID of the store that was last at each location."""
    return {
        location: bytes.fromhex(uuid)
        for record in records
        if record.kind == NAMESPACE
        for uuid, location in _locations(record).items()
    }


def check_served(
    entities: Iterable[EntityRecord], records: Iterable[EntityRecord], owners: Owners
) -> None:
    """Raises StoreUnreadable if entities are in a store that was used before, and is
    not served now."""
    places = {uuid: place for place, uuid in remembered_stores(records).items()}
    for entity in entities:
        for store_uuid in entity.placement:
            if store_uuid in places and owners.find(store_uuid) is None:
                raise StoreUnreadable(
                    f"The {entity.kind} '{entity.path}' is in the store "
                    f"{places[store_uuid]}, which is not among the stores of this bus. "
                    "Name it as well, with --store."
                )


def _is_intent_in(noted: Unfinished, owner: StoreOwner) -> bool:
    return noted.kind == INTENT and noted.store_uuid == owner.store_uuid


def _locations(record: EntityRecord) -> Mapping[str, str]:
    found: Mapping[str, str] = record.description.get(STORES, {})
    return found


def _is_of_namespace(stored: StoredEntity) -> bool:
    try:
        return entity_of(stored).kind == NAMESPACE
    except ValueError:
        return False
