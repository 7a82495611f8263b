"""What a restored bus has anew, so that it and its original can both exist.

- UUIDs of stores: readers of operation logs would mix up two histories.
- Epochs: lock tokens of the original, also of its later starts, are unknown here.
- The next sequence numbers, far beyond those that the original has given since: readers
  and ledgers that have seen those would take new messages for them.
- Epochs of reader leases: a reader of the original cannot settle here.
- The identity of the catalog: its versions mean something else from here on.
- The key of brokers: those of the one do not talk to those of the other.

Names, keys, settings, creation times and generations of entities stay: clients and
pairs go on where the backup was made.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

from twinbus.backup.manifest import BackedUpStore
from twinbus.broker.changes import StoredEntity
from twinbus.entities.record_description import NAMESPACE
from twinbus.entities.store_entries import STORES
from twinbus.store.base import StoreError
from twinbus.store.catalog import EntityRecord, Unfinished, entity_of, stored_entity
from twinbus.store.catalog_move import CatalogContent

EPOCHS_SKIPPED: Final = 1 << 10
"""More starts than a bus has between a backup and its use; there are 2^24 epochs."""

SEQUENCES_SKIPPED: Final = 1 << 32
"""More messages than a fragment gets in between. There are 2^48 numbers, enough to
restore a backup of a restored bus some 65,000 times."""

_UUID_BYTES: Final = 16
_KEY_BYTES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreName:
    """A store in the backup, and what it is now."""

    old_uuid: bytes
    uuid: bytes
    location: str


@final
class NewIdentity:
    """Of one restored bus."""

    def __init__(self, names: Sequence[StoreName], now: int) -> None:
        self.names: Sequence[StoreName] = names
        # When it was restored.
        self.now: int = now
        self._by_uuid: Mapping[bytes, StoreName] = {one.old_uuid: one for one in names}

    def of_store(self, store: BackedUpStore) -> StoreName:
        return self._by_uuid[bytes.fromhex(store.uuid)]

    def renamed(self, record: EntityRecord) -> EntityRecord:
        """An entity, in the stores of now."""
        description = dict(record.description)
        if record.kind == NAMESPACE and STORES in description:
            # Where the original had other stores before is not known here.
            description[STORES] = {
                one.uuid.hex(): one.location
                for one in self.names
                if one.old_uuid.hex() in description[STORES]
            }
        placement = tuple(map(self._uuid, record.placement))
        return replace(record, description=description, placement=placement)

    def renamed_copy(self, stored: StoredEntity) -> StoredEntity:
        """The copy that a store has of an entity; one that cannot be read stays."""
        try:
            return stored_entity(self.renamed(entity_of(stored)))
        except ValueError:
            return stored

    def _uuid(self, old: bytes) -> bytes:
        found = self._by_uuid.get(old)
        return old if found is None else found.uuid

    def catalog(self, content: CatalogContent) -> CatalogContent:
        """The catalog of the restored bus."""
        return replace(
            content,
            identity=secrets.token_bytes(_UUID_BYTES),
            cluster_key=secrets.token_bytes(_KEY_BYTES),
            entities=[self.renamed(one) for one in content.entities],
            unfinished=[
                replace(one, store_uuid=self._uuid(one.store_uuid))
                for one in content.unfinished
            ],
        )


def named_anew(
    stores: Sequence[BackedUpStore], locations: Sequence[str], now: int
) -> NewIdentity:
    """Stores of a backup that go to these places."""
    names = [
        StoreName(
            old_uuid=bytes.fromhex(store.uuid),
            uuid=secrets.token_bytes(_UUID_BYTES),
            location=location,
        )
        for store, location in zip(stores, locations, strict=True)
    ]
    return NewIdentity(names, now)


# --- the catalog as a file ------------------------------------------------------------


def catalog_text(content: CatalogContent) -> str:
    """All that counts of a catalog, for any kind of catalog."""
    fields: dict[str, Any] = {
        "identity": content.identity.hex(),
        "version": content.version,
        "root_key": content.root_key,
        "entities": [
            {
                "generation": one.generation.hex(),
                **json.loads(stored_entity(one).definition),
            }
            for one in content.entities
        ],
        "unfinished": [
            {
                "kind": one.kind,
                "namespace": one.namespace,
                "path": one.path,
                "generation": one.generation.hex(),
                "store_uuid": one.store_uuid.hex(),
                "noted_at": one.noted_at,
            }
            for one in content.unfinished
        ],
    }
    return json.dumps(fields, indent=1) + "\n"


def catalog_of(text: str) -> CatalogContent:
    """Raises StoreError."""
    try:
        fields = json.loads(text)
        return CatalogContent(
            identity=bytes.fromhex(fields["identity"]),
            version=fields["version"],
            entities=[_entity(one) for one in fields["entities"]],
            unfinished=[_unfinished(one) for one in fields["unfinished"]],
            cluster_key=b"",
            root_key=fields["root_key"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"The catalog of the backup cannot be read: {error}") from None


def _entity(fields: Mapping[str, Any]) -> EntityRecord:
    generation = bytes.fromhex(fields["generation"])
    definition = json.dumps(fields)
    return entity_of(StoredEntity(generation=generation, definition=definition))


def _unfinished(fields: Mapping[str, Any]) -> Unfinished:
    return Unfinished(
        **{
            **fields,
            "generation": bytes.fromhex(fields["generation"]),
            "store_uuid": bytes.fromhex(fields["store_uuid"]),
        }
    )
