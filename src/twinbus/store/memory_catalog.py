"""The catalog in memory: for tests, and the model of the others."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import final

from twinbus.store.base import StoreError, StoreInUse
from twinbus.store.catalog import EntityRecord, Unfinished


@final
class MemoryCatalog:
    """Entity descriptions that last as long as this object."""

    def __init__(self) -> None:
        # By namespace and path in lower case.
        self._entities: dict[tuple[str, str], EntityRecord] = {}
        # By generation and store.
        self._unfinished: dict[tuple[bytes, bytes], Unfinished] = {}
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

    async def unfinished(self) -> list[Unfinished]:
        self._check_open()
        return [noted for _, noted in sorted(self._unfinished.items())]

    async def intend(self, intents: Sequence[Unfinished]) -> None:
        self._check_open()
        self._note(intents)

    def _note(self, noted: Sequence[Unfinished]) -> None:
        for one in noted:
            self._unfinished[one.generation, one.store_uuid] = one

    async def put(self, *entities: EntityRecord) -> None:
        self._check_open()
        for entity in entities:
            # Kept as JSON elsewhere, so it must survive that here too.
            description = json.loads(json.dumps(dict(entity.description)))
            key = (entity.namespace.lower(), entity.path.lower())
            self._entities[key] = replace(entity, description=description)
            for noted in list(self._unfinished):
                if noted[0] == entity.generation:
                    del self._unfinished[noted]

    async def remove(self, tombstones: Sequence[Unfinished]) -> None:
        self._check_open()
        for one in tombstones:
            self._entities.pop((one.namespace.lower(), one.path.lower()), None)
        self._note(tombstones)

    async def finish(self, dropped: Sequence[Unfinished]) -> None:
        self._check_open()
        for one in dropped:
            self._unfinished.pop((one.generation, one.store_uuid), None)

    async def close(self) -> None:
        self._is_open = False

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreError("The catalog in memory is not open.")
