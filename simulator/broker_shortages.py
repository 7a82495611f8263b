"""What befalls a simulated cluster of which some stores do not take all that comes.

One store or several, but never all, have little room, or none at all, or can only be
read (`shortage.py`), while the other troubles and the plot of the world go on. Room
comes back at once, or by and by. Sometimes nobody hears what became of the commit that
was under way when it began.
"""

import asyncio
from random import Random
from typing import TYPE_CHECKING, Final

from simulator.broker_plots import Plot
from simulator.broker_store import CommonStore
from simulator.broker_troubles import Troubles
from simulator.shortage import Shortage

if TYPE_CHECKING:
    from simulator.brokers_world import BrokersWorld

_SHORTAGES: Final = (
    *(Shortage.ROOM, Shortage.ROOM, Shortage.ALL_ROOM),
    *(Shortage.WRITING, Shortage.WRITING),
)
_DURATIONS: Final = ((0.2, 3.0), (0.2, 3.0), (5.0, 20.0))
_BETWEEN_SECONDS: Final = (0.5, 6.0)


class Shortages(Troubles):
    """Beside all other troubles of a world."""

    def __init__(self, world: "BrokersWorld", random: Random, plot: Plot) -> None:
        super().__init__(world, random, plot)
        self._choices = Random(random.random())
        # While the catalog is away stores move for reasons of their own here.
        self._kinds = [one for one in self._kinds if one != self._catalog_away]
        self._short: set[asyncio.Task[None]] = set()

    def is_in_the_way(self) -> bool:
        """Also if nobody can take the lease of a store, or renew it."""
        can_all = all(store.capacity.takes_leases for store in self._world.stores)
        return super().is_in_the_way() or not can_all

    async def go_on(self, seconds: float) -> None:
        making = asyncio.create_task(self._make_shortages(seconds))
        await super().go_on(seconds)
        await making
        await asyncio.gather(*self._short)

    async def _make_shortages(self, seconds: float) -> None:
        random, loop = self._choices, asyncio.get_running_loop()
        ends_at = loop.time() + seconds
        while loop.time() < ends_at:
            await asyncio.sleep(random.uniform(*_BETWEEN_SECONDS))
            free = [one for one in self._world.stores if not one.capacity.is_short]
            if len(free) > 1:
                task = asyncio.create_task(self._shortage_of(random.choice(free)))
                self._short.add(task)
                task.add_done_callback(self._short.discard)

    async def _shortage_of(self, store: CommonStore) -> None:
        random, shortage = self._choices, self._choices.choice(_SHORTAGES)
        self._begin_shortage(store, shortage)
        if random.random() < 0.3:
            self._leave_unanswered(store)
        await asyncio.sleep(random.uniform(*random.choice(_DURATIONS)))
        if random.random() < 0.4:
            self._begin_shortage(store, Shortage.ROOM)
            await asyncio.sleep(random.uniform(*_BETWEEN_SECONDS))
        store.capacity.end()
        self._tell(store)

    def _begin_shortage(self, store: CommonStore, shortage: Shortage) -> None:
        store.capacity.begin(shortage, self._choices)
        self._tell(store)

    def _tell(self, store: CommonStore) -> None:
        self._world.tell(f"{store.name} {store.capacity.shortage.value}")
        self.changed()

    def _leave_unanswered(self, store: CommonStore) -> None:
        for seat in self._world.seats:
            for one in seat.stores():
                if one.shared is store:
                    one.is_unknown_next = True
