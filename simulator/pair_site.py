"""One site of a simulated pair: a bus with its disk, its clock and its wire.

The bus may crash at any moment and is started again a while later, from its disk. Its
clock differs from that of the other site.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random

from simulator.auditor import Auditor
from simulator.catalog import FaultyCatalog
from simulator.clock import SimulatedClock
from simulator.disk import Disk, DiskInMemory, DiskOfFiles
from simulator.life import Life
from simulator.pair_wire import Wire
from simulator.sighting import Violation
from simulator.store import Faults, FaultyStore
from simulator.trace import Trace
from twinbus.store.base import Store


class Site:
    """The environment of one bus, over all of its restarts."""

    def __init__(
        self,
        name: str,
        clock: SimulatedClock,
        random: Random,
        trace: Trace,
        *,
        faults: Faults,
        tick_ms: int,
        folder: Path | None,
        plant: Callable[[Store], Store] | None,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self.name = name
        self.clock = clock
        self.wire = Wire(Random(random.random()))
        self.faults = faults
        self._random = random
        self._trace = trace
        self._tick_ms = tick_ms
        self._plant = plant
        self._on_failure = on_failure
        self._disk: Disk = DiskInMemory()
        if folder is not None:
            (folder / name).mkdir()
            self._disk = DiskOfFiles(folder / name, Random(random.random()))
        self._is_torn = False
        # The current process of the bus.
        self.life = self._new_life()
        self._reviving: asyncio.Task[None] | None = None
        # How long it stays down after a crash.
        self._downtime_seconds = random.choice((0.5, 3.0, 20.0))

    def _new_life(self) -> Life:
        self._raw_store: Store = self._disk.store()
        store = self._raw_store
        if self._plant is not None:
            store = self._plant(store)
        random = Random(self._random.random())
        return Life(
            FaultyStore(store, self.faults, random, self),
            FaultyCatalog(self._disk.catalog(), self.faults, random, self),
            self.clock,
            Random(self._random.random()),
            Auditor(),
            Trace(),
            tick_ms=self._tick_ms,
            on_failure=self._on_failure,
        )

    # --- its lives --------------------------------------------------------------

    async def start(self) -> None:
        """Returns when the bus is up, or crashed while it was starting."""
        starting = asyncio.ensure_future(self.life.start())
        ending = asyncio.ensure_future(self.life.ended.wait())
        await asyncio.wait((starting, ending), return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        if not self.life.is_alive:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            return
        await starting
        self.wire.connect(self.life)
        self.note("is up")

    async def _revive(self) -> None:
        old = self.life
        while not self.life.is_alive:
            await asyncio.sleep(self._downtime_seconds)
            dead = self.life
            await self._disk.crash(
                self._raw_store, dead.catalog.catalog, torn=self._is_torn
            )
            await dead.bury()
            self.life = self._new_life()
            await self.start()
        assert self.life is not old

    async def until_up(self) -> None:
        while self._reviving is not None and not self._reviving.done():
            await self._reviving

    def heal(self) -> None:
        """From now on its store has no faults."""
        self.faults = Faults()
        self.life.store.faults = self.life.catalog.faults = self.faults
        self._downtime_seconds = 0.5

    async def stop(self) -> None:
        await self.until_up()
        await self.life.hang_up()
        await self.life.stop()

    def check(self) -> None:
        if self.life.is_alive and self.life.fatal is not None:
            raise Violation(f"{self.name} gave up: {self.life.fatal}")

    # --- what its store does to it (`store.Surroundings`) ---------------------------

    def note(self, what: str) -> None:
        self._trace.add(self.clock.monotonic(), f"{self.name}: {what}")

    def crash(self, how: str, *, torn: bool = False) -> None:
        if not self.life.is_alive:
            return
        self.note(f"CRASH {how}")
        self._is_torn = torn
        self.life.die()
        self.wire.cut(silently=self._random.random() < 0.3)
        self._reviving = asyncio.ensure_future(self._revive())
        self._reviving.add_done_callback(self._revived)

    def _revived(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._on_failure(error)

    def about_to_commit(self) -> None:
        self._disk.mark()

    def commit_did_not_happen(self) -> None:
        """Does nothing: the bus restores itself."""

    def bus_has_started_over(self) -> None:
        """Does nothing: it is not needed here."""

    def store_calls_overlap(self) -> None:
        self._on_failure(Violation(f"two operations of {self.name}'s store overlap"))

    def is_going_in_circles(self) -> None:
        self._on_failure(Violation(f"{self.name} asks its store over and over"))
        self.crash("to get out of a circle")
