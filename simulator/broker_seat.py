"""A place for a broker: the machine it is on, and the process that has it."""

import asyncio
from typing import TYPE_CHECKING

from simulator.broker_store import FIRST_FORMAT, BrokerStore, CommonStore
from simulator.sighting import Violation
from simulator.simulated_broker import SimulatedBroker
from twinbus.owner.sharing import Sharing
from twinbus.store.base import StoreError

if TYPE_CHECKING:
    from simulator.brokers_world import BrokersWorld


class Seat:
    """A place for a broker, and the process that has it."""

    def __init__(self, world: "BrokersWorld", number: int, rate: float) -> None:
        self._world = world
        self.place = f"broker-{number}"
        self._rate = rate
        # That the code reads with which it is started.
        self.newest_format = FIRST_FORMAT
        self.process = world.new_process(self.place, rate)
        self.process.end()
        self.broker: SimulatedBroker | None = None
        # It is being started or stopped.
        self._is_busy = False
        # Before that its supervisor does not start it again.
        self._starts_at = 0.0

    @property
    def is_up(self) -> bool:
        return self.process.is_running and not self._is_busy

    def stores(self) -> list[BrokerStore]:
        return [] if self.broker is None else self.broker.stores

    def owned(self) -> list[CommonStore]:
        """Stores that its broker has in the epoch that counts, frozen or not."""
        if self.broker is None or self.process.has_ended:
            return []
        return self.broker.owned_stores()

    def stays_down(self, seconds: float) -> None:
        """When it ends now."""
        self._starts_at = self._world.time() + seconds

    def must_start(self) -> bool:
        """Nobody has started it again."""
        is_due = self._world.time() >= self._starts_at
        return self.process.has_ended and not self._is_busy and is_due

    async def start(self) -> None:
        """Does nothing if it is up. Starts again and again while that fails."""
        if self._is_busy or not self.process.has_ended:
            return
        self._is_busy = True
        try:
            while not await self._is_started():  # noqa: ASYNC110
                await asyncio.sleep(1)
        finally:
            self._is_busy = False

    async def _is_started(self) -> bool:
        world = self._world
        self.process = process = world.new_process(self.place, self._rate)
        self.broker = broker = world.new_broker(
            process, Sharing.SHARED, self.newest_format
        )
        world.tell(f"{self.place} starts")
        # Whoever was heard of was the last process here.
        world.catalog.withdrawn(self.place)
        try:
            await process.run(self._begin(broker))
        except StoreError as error:
            world.tell(f"{self.place} does not start: {error}")
            process.end()
            return False
        return True

    async def _begin(self, broker: SimulatedBroker) -> None:
        await broker.open()
        self._world.watch_memory(broker)
        await broker.join(self._world.first_count)

    async def stop(self) -> None:
        """As it should be; it ends also if that takes too long."""
        assert self.broker is not None
        self._is_busy = True
        process = self.process
        stopping = process.run(self.broker.stop())
        await asyncio.wait((stopping,), timeout=30)
        if not stopping.done():
            self._world.tell(f"{self.place} does not stop")
        elif stopping.exception() is not None and not process.has_ended:
            self._world.fail(Violation(f"a stop fails: {stopping.exception()!r}"))
        process.end()
        self._is_busy = False

    def kill(self, *, is_silent: bool) -> None:
        self.process.is_silent = is_silent
        self.process.end()
