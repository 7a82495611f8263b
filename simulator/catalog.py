"""A catalog whose process may end before or after each of its writes."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import final

from simulator.store import Faults, Surroundings
from twinbus.store.catalog import (
    Catalog,
    CatalogChanges,
    CatalogSnapshot,
    EntityRecord,
    Unfinished,
)


@final
class FaultyCatalog:
    """A catalog wrapper that injects crashes."""

    def __init__(
        self, catalog: Catalog, faults: Faults, random: Random, world: Surroundings
    ) -> None:
        self.catalog = catalog
        self.faults = faults
        self._random = random
        self._world = world
        self.is_dead = False

    @property
    def location(self) -> str:
        return self.catalog.location

    def exists(self) -> bool:
        return self.catalog.exists()

    async def _perhaps_crash(self, probability: float, how: str) -> None:
        if probability > 0 and self._random.random() < probability:
            self._world.crash(how)
        if self.is_dead:
            await asyncio.get_running_loop().create_future()

    async def _write(self, write: Callable[[], Awaitable[None]], what: str) -> None:
        await self._perhaps_crash(self.faults.crash_before, f"before a {what}")
        await write()
        await self._perhaps_crash(self.faults.crash_after, f"after a {what}")

    async def open(self) -> list[EntityRecord]:
        return await self.catalog.open()

    async def snapshot(self) -> CatalogSnapshot:
        return await self.catalog.snapshot()

    async def changes_since(self, version: int) -> CatalogChanges | None:
        return await self.catalog.changes_since(version)

    async def unfinished(self) -> list[Unfinished]:
        return await self.catalog.unfinished()

    async def intend(self, intents: Sequence[Unfinished]) -> None:
        await self._write(lambda: self.catalog.intend(intents), "catalog intent")

    async def put(self, *entities: EntityRecord) -> None:
        await self._write(lambda: self.catalog.put(*entities), "catalog write")

    async def remove(self, tombstones: Sequence[Unfinished]) -> None:
        await self._write(lambda: self.catalog.remove(tombstones), "catalog removal")

    async def finish(self, dropped: Sequence[Unfinished]) -> None:
        await self._write(lambda: self.catalog.finish(dropped), "catalog clearing")

    async def close(self) -> None:
        await self.catalog.close()
