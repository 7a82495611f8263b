"""Versions of the catalog in memory: which write created, changed or removed what.

For an entity that exists two numbers are kept, however often it changes. Of those that
are gone only the last ones are remembered.
"""

import secrets
from collections.abc import Mapping
from typing import final

from twinbus.store.catalog import (
    REMOVALS_KEPT,
    CatalogChanges,
    EntityRecord,
    RemovedEntity,
)

# Namespace and path in lower case.
EntityKey = tuple[str, str]


@final
class CatalogVersions:
    """Of one catalog."""

    def __init__(self) -> None:
        # Each catalog that is made has its own.
        self.identity: bytes = secrets.token_bytes(16)
        # Of the last write.
        self.last: int = 1
        # Removals up to this version may be forgotten.
        self._forgotten_through: int = 0
        # Of the write that created the generation, and of the last that changed it.
        self._created: dict[EntityKey, int] = {}
        self._changed: dict[EntityKey, int] = {}
        # With the version of the removal, oldest first.
        self._removed: dict[EntityKey, tuple[int, RemovedEntity]] = {}

    def begin(self) -> None:
        """What is noted from here on belongs to the next version."""
        self.last += 1

    def note_put(
        self, key: EntityKey, before: EntityRecord | None, after: EntityRecord
    ) -> None:
        if before is None or before.generation != after.generation:
            self._created[key] = self.last
        self._changed[key] = self.last
        self._removed.pop(key, None)

    def note_removal(self, key: EntityKey, entity: EntityRecord) -> None:
        del self._created[key], self._changed[key]
        removed = RemovedEntity(
            namespace=entity.namespace, path=entity.path, generation=entity.generation
        )
        self._removed[key] = (self.last, removed)

    def forget(self) -> None:
        """Keep the last removals only; those of one version go together."""
        excess = len(self._removed) - REMOVALS_KEPT
        if excess <= 0:
            return
        oldest = list(self._removed.values())
        self._forgotten_through = oldest[excess - 1][0]
        self._removed = {
            key: found
            for key, found in self._removed.items()
            if found[0] > self._forgotten_through
        }

    def changes_since(
        self, version: int, entities: Mapping[EntityKey, EntityRecord]
    ) -> CatalogChanges | None:
        """The answer of `Catalog.changes_since`."""
        if not self._forgotten_through <= version <= self.last:
            return None
        changed = sorted(key for key, at in self._changed.items() if at > version)
        removed = sorted(key for key, (at, _) in self._removed.items() if at > version)
        return CatalogChanges(
            identity=self.identity,
            version=self.last,
            created=[entities[k] for k in changed if self._created[k] > version],
            updated=[entities[k] for k in changed if self._created[k] <= version],
            removed=[self._removed[key][1] for key in removed],
        )
