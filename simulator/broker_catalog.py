"""The catalog that simulated brokers share, as each of them reaches it.

It is in a database of its own. It may be away, or a broker may be cut off from it; then
a write fails, or happens without an answer.
"""

import asyncio
import math
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from random import Random
from typing import Any, Final, TypeVar

from simulator.broker_network import Cuts
from simulator.process_loop import SimulatedProcess
from twinbus.store.base import StoreError
from twinbus.store.catalog import (
    BrokerRecord,
    CatalogChanges,
    CatalogSnapshot,
    EntityRecord,
    Unfinished,
)
from twinbus.store.memory_catalog import MemoryCatalog

T = TypeVar("T")

CATALOG: Final = "catalog"
"""Its place in the network."""

_ANSWER_SECONDS: Final = 5.0


class SharedCatalog:
    """The catalog itself."""

    def __init__(self, cuts: Cuts) -> None:
        self.content = MemoryCatalog()
        self.cuts = cuts
        self.is_away = False
        # When brokers announced themselves first and last, by place.
        self._announced: dict[str, tuple[float, float]] = {}

    async def open(self) -> None:
        await self.content.open()

    def announced(self, place: str) -> None:
        now = asyncio.get_running_loop().time()
        first, _ = self._announced.get(place, (now, now))
        self._announced[place] = first, now

    def withdrawn(self, place: str) -> None:
        self._announced.pop(place, None)

    def is_known(self, place: str, now: float, seconds: float) -> bool:
        """Its broker has announced itself for so long, and did it just now."""
        first, last = self._announced.get(place, (now, now))
        return now - first > seconds and now - last < seconds

    def was_heard_of(self, place: str, now: float, seconds: float) -> bool:
        """Its broker has announced itself in the last so many seconds."""
        _, last = self._announced.get(place, (0.0, -math.inf))
        return now - last < seconds


class BrokerCatalog:
    """The catalog as one process has it."""

    def __init__(
        self, shared: SharedCatalog, process: SimulatedProcess, random: Random
    ) -> None:
        self._shared = shared
        self._content = shared.content
        self._place = process.place
        self._random = random

    @property
    def location(self) -> str:
        return CATALOG

    def exists(self) -> bool:
        return True

    async def _ask(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Raises StoreError if there is no way to it, or none back."""
        cuts = self._shared.cuts
        await asyncio.sleep(self._random.uniform(0.0002, 0.004))
        if self._shared.is_away:
            raise StoreError("the catalog is away")
        if cuts.has(self._place, CATALOG):
            await asyncio.sleep(_ANSWER_SECONDS)
            raise StoreError("the catalog cannot be reached")
        result = await work()
        await asyncio.sleep(self._random.uniform(0.0002, 0.004))
        if cuts.has(CATALOG, self._place):
            await asyncio.sleep(_ANSWER_SECONDS)
            raise StoreError("the catalog did not answer")
        return result

    async def open(self) -> list[EntityRecord]:
        return (await self.snapshot()).entities

    async def snapshot(self) -> CatalogSnapshot:
        return await self._ask(self._content.snapshot)

    async def changes_since(self, version: int) -> CatalogChanges | None:
        return await self._ask(partial(self._content.changes_since, version))

    async def unfinished(self) -> list[Unfinished]:
        return await self._ask(self._content.unfinished)

    async def intend(self, intents: Sequence[Unfinished]) -> None:
        await self._ask(partial(self._content.intend, intents))

    async def put(self, *entities: EntityRecord, known: int | None = None) -> None:
        await self._ask(partial(self._content.put, *entities, known=known))

    async def remove(
        self, tombstones: Sequence[Unfinished], known: int | None = None
    ) -> None:
        await self._ask(partial(self._content.remove, tombstones, known))

    async def finish(self, dropped: Sequence[Unfinished]) -> None:
        await self._ask(partial(self._content.finish, dropped))

    async def cluster_key(self) -> bytes:
        return await self._ask(self._content.cluster_key)

    async def announce(self, broker: BrokerRecord) -> None:
        await self._ask(partial(self._announce, broker))

    async def _announce(self, broker: BrokerRecord) -> None:
        await self._content.announce(broker)
        self._shared.announced(self._place)

    async def brokers(self) -> list[BrokerRecord]:
        return await self._ask(self._content.brokers)

    async def withdraw(self, broker_uuid: bytes) -> None:
        await self._ask(partial(self._content.withdraw, broker_uuid))

    async def close(self) -> None:
        """It is shared, and stays open."""
