"""A catalog whose process may end before or after each of its writes.

Another broker follows it: after each write it asks what changed since the version that
it knows, and must then know what the catalog says.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import final

from simulator.sighting import Violation
from simulator.store import Faults, Surroundings
from twinbus.store.catalog import (
    BrokerRecord,
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
        # What the other broker knows: nothing yet.
        self._known_version = 0
        self._known: dict[tuple[str, str], EntityRecord] = {}

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

    async def _put(self, entities: Sequence[EntityRecord], known: int | None) -> None:
        await self.catalog.put(*entities, known=known)
        await self._follow()

    async def _remove(
        self, tombstones: Sequence[Unfinished], known: int | None
    ) -> None:
        await self.catalog.remove(tombstones, known)
        await self._follow()

    async def _follow(self) -> None:
        """Raises Violation if the changes that are told are not those that happened."""
        changes = await self.catalog.changes_since(self._known_version)
        now = await self.catalog.snapshot()
        if changes is None or changes.version != now.version:
            raise Violation(f"version {self._known_version} of the catalog is lost")
        for gone in changes.removed:
            self._known.pop((gone.namespace, gone.path), None)
        for one in (*changes.created, *changes.updated):
            self._known[one.namespace, one.path] = one
        self._known_version = changes.version
        if self._known != {(one.namespace, one.path): one for one in now.entities}:
            raise Violation("a broker that follows the catalog knows something else")

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

    async def put(self, *entities: EntityRecord, known: int | None = None) -> None:
        await self._write(lambda: self._put(entities, known), "catalog write")

    async def remove(
        self, tombstones: Sequence[Unfinished], known: int | None = None
    ) -> None:
        await self._write(lambda: self._remove(tombstones, known), "catalog removal")

    async def finish(self, dropped: Sequence[Unfinished]) -> None:
        await self._write(lambda: self.catalog.finish(dropped), "catalog clearing")

    async def cluster_key(self) -> bytes:
        return await self.catalog.cluster_key()

    async def announce(self, broker: BrokerRecord) -> None:
        await self.catalog.announce(broker)

    async def brokers(self) -> list[BrokerRecord]:
        return await self.catalog.brokers()

    async def withdraw(self, broker_uuid: bytes) -> None:
        await self.catalog.withdraw(broker_uuid)

    async def close(self) -> None:
        await self.catalog.close()
