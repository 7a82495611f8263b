"""What worlds with several stores in one process share: the bus, its time, its end.

Each of these worlds has its own stores and its own story. The bus on them is the real
one: owners, a namespace and their ticks, on a virtual clock.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from simulator.clock import SimulatedClock
from simulator.loop import VirtualLoop
from simulator.trace import Trace
from twinbus.entities.namespace_limits import NamespaceLimits
from twinbus.entities.namespaces import Namespaces
from twinbus.limits import ENTITIES_PER_NAMESPACE, MESSAGE_BYTES
from twinbus.outbox.transfer_log import DOCUMENTED_TRANSFER, TransferSettings
from twinbus.owner.owners import Owners
from twinbus.owner.store_owner import StoreOwner
from twinbus.owner.turns import Turns
from twinbus.store.base import Store
from twinbus.store.catalog import Catalog
from twinbus.store.memory import MemoryDisk, MemoryStore
from twinbus.store.sqlite import SqliteStore

TICK_SECONDS: Final = 0.1
PATIENCE_SECONDS: Final = 60
"""How long stores may take to come back, of virtual time."""


class SeveralStores:
    """The base of a world: everything but its stores and its story."""

    def __init__(self, seed: int, loop: VirtualLoop) -> None:
        self._random = Random(seed)
        self._loop = loop
        self.trace = Trace()
        self.clock = SimulatedClock(loop)
        self._failure: AssertionError | None = None
        self._ticking: asyncio.Task[None] | None = None

    def _make_bus(
        self,
        stores: Sequence[Any],
        catalog: Catalog,
        *,
        transfer: TransferSettings = DOCUMENTED_TRANSFER,
        **limits: Any,
    ) -> None:
        """A new process on these stores; `limits` are those of a namespace."""
        self._owners = Owners([self._owner(store) for store in stores])
        self.namespaces = Namespaces(
            "simulated",
            catalog,
            self._owners,
            self.clock,
            self._random.randbytes,
            Turns(self.clock),
            rules=(),
            limits=NamespaceLimits(
                max_entities=ENTITIES_PER_NAMESPACE,
                max_entity_message_bytes=MESSAGE_BYTES,
                max_message_bytes=MESSAGE_BYTES,
                **limits,
            ),
            transfer=transfer,
        )
        self.namespace = self.namespaces.default

    def _owner(self, store: Any) -> StoreOwner:
        return StoreOwner(
            store,
            self.clock,
            self._random.randbytes,
            on_fatal=lambda error: self._tell(f"a store cannot go on: {error}"),
            after_turn=lambda: None,
            on_pressure=lambda is_high: None,
        )

    def time(self) -> float:
        return self._loop.time()

    def _tell(self, what: str) -> None:
        self.trace.add(self.clock.now(), what)

    def fail(self, violation: AssertionError) -> None:
        """Noted where it cannot be raised; the first one counts."""
        self._failure = self._failure or violation

    def _check_failure(self) -> None:
        """Raises what was noted."""
        if self._failure is not None:
            raise self._failure

    # --- life -----------------------------------------------------------------

    async def _remembered(self) -> dict[str, bytes]:
        """Where the catalog has seen the stores, if a store may be away at the start.
        Only a world with stores at different places can tell them apart by that."""
        return {}

    async def _start(self) -> None:
        await self._owners.open("simulated", await self._remembered())
        await self.namespaces.open()
        self._owners.start()
        self.namespaces.start()
        self._ticking = asyncio.create_task(self._tick_for_ever())

    async def _stop(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
        await self._owners.stop()
        await self.namespaces.close()

    async def _tick_for_ever(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._owners.tick()
            self.namespaces.tick(self.clock.now())


def made_store(folder: Path | None, name: str, disk: MemoryDisk | None = None) -> Store:
    """A file of the folder; in memory if there is none."""
    return MemoryStore(disk) if folder is None else SqliteStore(folder / name)
