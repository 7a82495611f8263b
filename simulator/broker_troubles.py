"""What befalls a simulated cluster.

| trouble       | what it is                                                     |
|---------------|----------------------------------------------------------------|
| dies          | a broker is killed, or its machine loses power                 |
| freezes       | nothing of a broker runs for a while; often within a commit    |
| cut off       | a broker from a store, the catalog or another broker, in one   |
|               | direction or in both                                           |
| away          | the catalog, or a store, answers nobody                        |
| unknown       | a commit has no answer                                         |
| slow          | a commit is under way for seconds                              |
| jumps         | somebody sets the time of day of a broker                      |
| joins, leaves | a broker is started, or stopped as it should be                |

Each ends by itself. A broker that ended is started again after a while. Worlds with a
plot (`broker_plots.py`) have few of these beside it.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Final

from simulator.broker_catalog import CATALOG
from simulator.broker_pauses import Moment
from simulator.broker_plots import NEWER_FORMAT, NobodyThere, Plot, Plots
from simulator.sighting import Violation

if TYPE_CHECKING:
    from simulator.broker_seat import Seat
    from simulator.broker_store import BrokerStore
    from simulator.brokers_world import BrokersWorld

_SHORT: Final = (0.2, 3.0)
_LONG: Final = (10.0, 30.0)
_LOOK_SECONDS: Final = 0.4
_MOMENT_SECONDS: Final = 2.0
_MOVE_SECONDS: Final = 2.0
"""A store that was being given back has been by then."""

_FIRST_SECONDS: Final = (3.0, 6.0)
_PAUSES: Final = (0.05, 1.0, 1.0, 6.0)

Way = tuple[str, str]
"""From one place to another."""


class Troubles:
    """Makes and ends the troubles of a world."""

    def __init__(self, world: "BrokersWorld", random: Random, plot: Plot) -> None:
        self._world = world
        self._random = random
        self._plot = plot
        self._plots = Plots(world, self, Random(random.random()))
        kinds: list[Callable[[], Awaitable[None]]] = [
            *(self._kill, self._kill, self._freeze, self._freeze, self._freeze),
            *(self._cut_store, self._cut_store, self._cut_catalog, self._cut_peers),
            *(self._catalog_away, self._store_away, self._unknown, self._slow),
            *(self._jump, self._leave),
        ]
        # Each world has some kinds only: most mistakes need one or two of them.
        others = random.sample(kinds, random.choice((0, 1, 3, len(kinds))))
        self._kinds = [random.choice((self._freeze, self._cut_store)), *others]
        # In the way of owning a store are those that keep a broker which runs from
        # reaching it, or from knowing that it should.
        self._hindering = {
            *(self._cut_store, self._cut_catalog, self._cut_peers, self._jump),
            *(self._catalog_away, self._store_away, self._unknown, self._slow),
        }
        self._under_way: dict[asyncio.Task[None], bool] = {}
        # When the last one began or ended.
        self.changed_at = 0.0

    def is_in_the_way(self) -> bool:
        """Something keeps brokers from owning stores."""
        return any(self._under_way.values())

    async def go_on(self, seconds: float) -> None:
        """Make troubles for so long, and wait for the end of the last one."""
        random, loop = self._random, asyncio.get_running_loop()
        ends_at = loop.time() + seconds
        if self._plot is not Plot.ANYTHING:
            # Until there is something to lose.
            await self.wait(random.uniform(*_FIRST_SECONDS))
        while loop.time() < ends_at:
            await self.wait(random.uniform(0, 2 * random.choice(_PAUSES)))
            if self._plot is Plot.ANYTHING or random.random() < 0.15:
                kind = random.choice(self._kinds)
                self._begin(kind(), hinders=kind in self._hindering)
            if self._plot is not Plot.ANYTHING:
                self._begin(self._act(), hinders=self._plot_hinders())
                await self._until_over()
            elif random.random() < 0.5:
                await self._until_over()
        await self._until_over()

    def _plot_hinders(self) -> bool:
        """A broker that only sleeps is replaced; one that sleeps unseen may have a
        file."""
        sleeps = (Plot.ASLEEP, Plot.ASLEEP_IN_A_FILE, Plot.ROBBED)
        return self._plot not in sleeps

    async def _act(self) -> None:
        try:
            await self._plots.act(self._plot)()
        except NobodyThere:
            await self.wait(1.0)

    def _begin(self, trouble: Awaitable[None], *, hinders: bool) -> None:
        task = asyncio.ensure_future(trouble)
        self._under_way[task] = hinders
        self.changed()
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._under_way[task]
        self.changed()
        if not task.cancelled() and (error := task.exception()) is not None:
            if not isinstance(error, AssertionError):
                raise error

    def changed(self) -> None:
        """What is possible now was not before, or the other way round."""
        self.changed_at = asyncio.get_running_loop().time()
        self._world.note_relayed()

    async def _until_over(self) -> None:
        while self._under_way:
            await asyncio.wait(self._under_way, timeout=_LOOK_SECONDS)
            self._world.check()

    async def wait(self, seconds: float) -> None:
        """Raises Violation as soon as there is one."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + seconds
        while (left := ends_at - loop.time()) > 0:
            await asyncio.sleep(min(left, _LOOK_SECONDS))
            self._world.check()

    def _duration(self) -> float:
        return self._random.uniform(*self._random.choice((_SHORT, _LONG)))

    def _some_seat(self) -> "Seat | None":
        """One whose broker is up."""
        seats = [one for one in self._world.seats if one.is_up]
        return self._random.choice(seats) if seats else None

    # --- a broker -------------------------------------------------------------

    async def _kill(self) -> None:
        seat = self._some_seat()
        if seat is None:
            return
        is_silent = self._random.random() < 0.3
        self._world.tell(f"{seat.place} dies" + (", unnoticed" if is_silent else ""))
        seconds = self._duration()
        seat.stays_down(seconds)
        seat.kill(is_silent=is_silent)
        await asyncio.sleep(seconds)
        await seat.start()

    async def _freeze(self) -> None:
        seat = self._some_seat()
        if seat is None:
            return
        process = seat.process
        if self._random.random() < 0.5:
            await self._begin_commit(seat)
        self._world.tell(f"{seat.place} freezes")
        process.freeze()
        await asyncio.sleep(self._duration())
        if process.has_ended:
            # Another broker has ended it.
            await seat.start()
            return
        self._world.tell(f"{seat.place} wakes up")
        process.wake_up()

    async def _begin_commit(self, seat: "Seat") -> None:
        """Wait until it commits; the commit arrives when it may be frozen."""
        stores = seat.stores()
        if stores:
            store = self._random.choice(stores)
            store.slow_seconds = self._random.uniform(0, 25)
            with contextlib.suppress(TimeoutError):
                await store.pauses.expect(Moment.WITHIN_COMMIT, _MOMENT_SECONDS)

    async def _jump(self) -> None:
        seat = self._some_seat()
        if seat is None:
            return
        by_ms = self._random.choice((-40_000, -3_000, 3_000, 40_000))
        self._world.tell(f"the clock of {seat.place} jumps by {by_ms} ms")
        self._world.audit.clock_set(seat.process.clock)
        seat.process.clock.jump(by_ms)
        await asyncio.sleep(1)

    async def _leave(self) -> None:
        seat = self._some_seat()
        if seat is None:
            return
        self._world.tell(f"{seat.place} is stopped")
        seconds = self._duration()
        seat.stays_down(seconds)
        await seat.stop()
        await asyncio.sleep(seconds)
        await seat.start()

    async def restart(self, seat: "Seat", newest_format: int) -> None:
        """Stop it, and start it with newer code."""
        seconds = self._random.uniform(*_SHORT)
        seat.stays_down(seconds)
        await seat.stop()
        seat.newest_format = newest_format
        await asyncio.sleep(seconds)
        await seat.start()

    async def finish_update(self) -> None:
        """No broker is left that cannot read the newer format."""
        for seat in self._world.seats:
            if seat.newest_format < NEWER_FORMAT:
                await self.restart(seat, NEWER_FORMAT)

    def make_free(self, store: "BrokerStore") -> None:
        """The broker that owns a store dies."""
        for seat in self._world.seats:
            if seat.process is store.process:
                self._world.tell(f"{seat.place} dies")
                seat.stays_down(self._random.uniform(*_SHORT))
                seat.kill(is_silent=False)

    # --- ways -----------------------------------------------------------------

    async def _cut(self, one: str, other: str) -> None:
        """In one direction, or in both."""
        ways = self._random.choice(
            [((one, other),), ((other, one),), ((one, other), (other, one))]
        )
        await self.cut(ways, self._duration())

    async def cut(self, ways: Sequence[Way], seconds: float) -> None:
        """Nothing gets there for so long."""
        text = " and ".join(f"from {sender} to {receiver}" for sender, receiver in ways)
        self._world.tell(f"nothing gets {text}")
        for way in ways:
            self._world.cuts.begin(*way)
        await asyncio.sleep(seconds)
        self._world.tell(f"there is a way {text}")
        for way in ways:
            self._world.cuts.end(*way)

    async def _cut_store(self) -> None:
        place = self._random.choice(self._world.seats).place
        await self._cut(place, self._random.choice(self._world.stores).name)

    async def _cut_catalog(self) -> None:
        await self._cut(self._random.choice(self._world.seats).place, CATALOG)

    async def _cut_peers(self) -> None:
        one, other = self._random.sample(self._world.seats, 2)
        await self._cut(one.place, other.place)

    # --- stores and catalog ---------------------------------------------------

    async def _catalog_away(self) -> None:
        began_at, seconds = self.changed_at, self._duration()
        self._world.tell("the catalog is away")
        self._world.catalog.is_away = True
        await asyncio.sleep(min(seconds, _MOVE_SECONDS))
        served = self._world.served()
        await asyncio.sleep(max(seconds - _MOVE_SECONDS, 0.0))
        if self.changed_at == began_at and not served <= self._world.served():
            # Nothing else has happened.
            self._world.fail(Violation("a store was lost while the catalog was away"))
        self._world.tell("the catalog is back")
        self._world.catalog.is_away = False

    async def _store_away(self) -> None:
        store = self._random.choice(self._world.stores)
        self._world.tell(f"{store.name} is away")
        store.is_away = True
        await asyncio.sleep(self._duration())
        self._world.tell(f"{store.name} is back")
        store.is_away = False

    async def _unknown(self) -> None:
        seat = self._some_seat()
        if seat is not None:
            self._world.tell(f"the next commits of {seat.place} have no answer")
            for store in seat.stores():
                store.is_unknown_next = True

    async def _slow(self) -> None:
        seat = self._some_seat()
        if seat is not None:
            self._world.tell(f"the next commits of {seat.place} are slow")
            for store in seat.stores():
                store.slow_seconds = self._random.uniform(0, 6)
