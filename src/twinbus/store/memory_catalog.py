"""The catalog in memory: for tests, and the model of the others."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import final

from twinbus.store.base import StoreError, StoreInUse
from twinbus.store.catalog import EntityRecord


@final
class MemoryCatalog:
    """Entity descriptions that last as long as this object."""

    def __init__(self) -> None:
        # By namespace and path in lower case.
        self._entities: dict[tuple[str, str], EntityRecord] = {}
        self._is_open: bool = False

    async def open(self) -> list[EntityRecord]:
        if self._is_open:
            raise StoreInUse("The catalog in memory is open already.")
        self._is_open = True
        return [entity for _, entity in sorted(self._entities.items())]

    async def put(self, entity: EntityRecord) -> None:
        self._check_open()
        # Kept as JSON elsewhere, so it must survive that here too.
        description = json.loads(json.dumps(dict(entity.description)))
        key = (entity.namespace.lower(), entity.path.lower())
        self._entities[key] = replace(entity, description=description)

    async def remove(self, namespace: str, paths: Sequence[str]) -> None:
        self._check_open()
        for path in paths:
            self._entities.pop((namespace.lower(), path.lower()), None)

    async def close(self) -> None:
        self._is_open = False

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreError("The catalog in memory is not open.")
