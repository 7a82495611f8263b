"""A catalog whose process may end before or after each of its writes."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import final

from twinbus.store.catalog import Catalog, EntityRecord
from twinbus.testing.sim.store import Faults, Surroundings


@final
class FaultyCatalog:
    """Stands between a namespace and its catalog."""

    def __init__(
        self, catalog: Catalog, faults: Faults, random: Random, world: Surroundings
    ) -> None:
        self.catalog = catalog
        self.faults = faults
        self._random = random
        self._world = world
        self.is_dead = False

    async def _perhaps_crash(self, probability: float, how: str) -> None:
        if probability > 0 and self._random.random() < probability:
            self._world.crash(how)
        if self.is_dead:
            await asyncio.get_running_loop().create_future()

    async def open(self) -> list[EntityRecord]:
        return await self.catalog.open()

    async def put(self, entity: EntityRecord) -> None:
        await self._perhaps_crash(self.faults.crash_before, "before a catalog write")
        await self.catalog.put(entity)
        await self._perhaps_crash(self.faults.crash_after, "after a catalog write")

    async def remove(self, namespace: str, paths: Sequence[str]) -> None:
        await self._perhaps_crash(self.faults.crash_before, "before a catalog removal")
        await self.catalog.remove(namespace, paths)
        await self._perhaps_crash(self.faults.crash_after, "after a catalog removal")

    async def close(self) -> None:
        await self.catalog.close()
