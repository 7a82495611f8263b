"""Troubles that are aimed at one rule each, for the same broker at the same time.

Most mistakes show only if two or three things go wrong together, to the broker that
owns a store with work to do. Chance rarely brings that about, so some worlds do.

| plot         | what befalls the owner of a store                               |
|--------------|-----------------------------------------------------------------|
| asleep       | it freezes right before, within or after a commit or a renewal, |
|              | wakes up after it was replaced, and goes on where it was        |
| asleep in    | it freezes while it writes to a file, for so long that another  |
| a file       | must end it                                                     |
| unannounced  | the catalog does not hear of it, and its store answers late     |
| unrenewed    | neither the catalog nor its store hear of it for about a term,  |
|              | clocks do not run equally fast, and clients only receive: no    |
|              | commit tells it that its store is away                          |
| robbed       | it freezes right before or after it takes a store               |
| hidden       | others cannot see its process: it is in another container, or   |
|              | on a machine of the same name                                   |
| updated      | brokers are replaced by newer ones, which have a newer format;  |
|              | so stores move while their commits are under way                |
"""

from collections.abc import Awaitable, Callable
from enum import Enum
from random import Random
from typing import TYPE_CHECKING, Final

from simulator.broker_catalog import CATALOG
from simulator.broker_pauses import Moment

if TYPE_CHECKING:
    from simulator.broker_seat import Seat
    from simulator.broker_store import BrokerStore
    from simulator.broker_troubles import Troubles
    from simulator.brokers_world import BrokersWorld

_COMMITS: Final = (Moment.BEFORE_COMMIT, Moment.WITHIN_COMMIT, Moment.AFTER_COMMIT)
_RENEWALS: Final = (Moment.BEFORE_RENEWAL, Moment.AFTER_RENEWAL)
_TAKES: Final = (Moment.BEFORE_TAKE, Moment.AFTER_TAKE)

_REPLACED: Final = (8.0, 14.0)
"""So many seconds, and others have replaced a broker."""

_ENDED: Final = (30.0, 36.0)
"""So many seconds, and a store must have a new owner though the last one is frozen."""

_ABOUT_A_TERM: Final = (6.0, 11.0)
_MOMENT_SECONDS: Final = 6.0

NEWER_FORMAT: Final = 2


class Plot(Enum):
    """What a world is about; a seed has the one of its remainder."""

    ANYTHING = 0
    ASLEEP = 1
    ASLEEP_IN_A_FILE = 2
    UNANNOUNCED = 3
    UNRENEWED = 4
    ROBBED = 5
    HIDDEN = 6
    UPDATED = 7


def plot_of(seed: int) -> Plot:
    return Plot(seed % len(Plot))


class Plots:
    """Carries out the plot of a world, again and again."""

    def __init__(
        self, world: "BrokersWorld", troubles: "Troubles", random: Random
    ) -> None:
        self._world = world
        self._troubles = troubles
        self._random = random

    def act(self, plot: Plot) -> Callable[[], Awaitable[None]]:
        """One act of it."""
        acts: dict[Plot, Callable[[], Awaitable[None]]] = {
            Plot.ASLEEP: self._asleep,
            Plot.ASLEEP_IN_A_FILE: self._asleep_in_a_file,
            Plot.UNANNOUNCED: self._unannounced,
            Plot.UNRENEWED: self._unrenewed,
            Plot.ROBBED: self._robbed,
            Plot.HIDDEN: self._hidden,
            Plot.UPDATED: self._updated,
        }
        return acts[plot]

    def _owner(self, *, of_file: bool | None = None) -> "tuple[Seat, BrokerStore]":
        """A broker that serves a store; it may be asked for the kind of the store."""
        found = [
            (seat, store)
            for seat in self._world.seats
            if seat.is_up and seat.broker is not None
            for store in seat.stores()
            if seat.broker.serves(store.shared)
        ]
        fitting = [
            one for one in found if of_file is None or one[1].shared.is_file == of_file
        ]
        if not fitting:
            raise NobodyThere
        return self._random.choice(fitting)

    async def _freeze_at(
        self, seat: "Seat", store: "BrokerStore", moment: Moment, seconds: float
    ) -> None:
        """Wakes it up after so many seconds, unless another broker has ended it."""
        process = seat.process
        if not await store.pauses.expect(moment, _MOMENT_SECONDS):
            return
        self._world.tell(f"{seat.place} freezes {moment.value}: {store.location}")
        self._world.note_relayed()
        await self._troubles.wait(seconds)
        if process.has_ended:
            await seat.start()
            return
        self._world.tell(f"{seat.place} wakes up")
        process.wake_up()

    # --- the plots ------------------------------------------------------------

    async def _asleep(self) -> None:
        seat, store = self._owner(of_file=False)
        moment = self._random.choice((*_COMMITS, *_COMMITS, *_RENEWALS))
        if moment is Moment.WITHIN_COMMIT:
            # The commit may arrive when others have the store.
            store.slow_seconds = self._random.choice((0.0, 0.0, 9.0, 12.0))
        await self._freeze_at(seat, store, moment, self._random.uniform(*_REPLACED))

    async def _asleep_in_a_file(self) -> None:
        seat, store = self._owner(of_file=True)
        seconds = self._random.uniform(*_ENDED)
        await self._freeze_at(seat, store, Moment.WITHIN_COMMIT, seconds)

    async def _unannounced(self) -> None:
        seat, _ = self._owner(of_file=False)
        ways = self._random.choice([((seat.place, CATALOG),), _both(seat.place)])
        for store in seat.stores():
            store.lag_seconds = self._random.choice((0.5, 2.0, 3.5))
        await self._troubles.cut(ways, self._random.uniform(*_REPLACED))
        for store in seat.stores():
            store.lag_seconds = 0.0

    async def _unrenewed(self) -> None:
        seat, store = self._owner(of_file=False)
        there, back = (seat.place, store.location), (store.location, seat.place)
        ways = self._random.choice([(there,), (back,), (there, back), (there, back)])
        seconds = self._random.uniform(*_ABOUT_A_TERM)
        self._world.is_quiet = True
        await self._troubles.cut((*ways, *_both(seat.place)), seconds)
        self._world.is_quiet = False

    async def _robbed(self) -> None:
        """Its store must be taken by somebody for that."""
        _, lost = self._owner()
        takers = [
            seat
            for seat in self._world.seats
            if seat.is_up and seat.process is not lost.process
        ]
        if not takers:
            raise NobodyThere
        for seat in takers:
            if seat.broker is None:
                raise NobodyThere
        self._troubles.make_free(lost)
        taker = self._random.choice(takers)
        (store,) = [s for s in taker.stores() if s.shared is lost.shared]
        moment = self._random.choice(_TAKES)
        await self._freeze_at(taker, store, moment, self._random.uniform(*_REPLACED))

    async def _hidden(self) -> None:
        seat, store = self._owner()
        seconds = self._random.uniform(*_REPLACED)
        if self._random.random() < 0.5:
            moment = self._random.choice(_COMMITS)
            await self._freeze_at(seat, store, moment, seconds)
        else:
            await self._troubles.cut(_both(seat.place), seconds)

    async def _updated(self) -> None:
        old = [
            seat
            for seat in self._world.seats
            if seat.is_up and seat.newest_format < NEWER_FORMAT
        ]
        if not old:
            raise NobodyThere
        seat = self._random.choice(old)
        self._world.tell(f"{seat.place} is updated")
        for store in [store for one in self._world.seats for store in one.stores()]:
            store.lag_seconds = self._random.choice((0.0, 2.0))
        await self._troubles.restart(seat, NEWER_FORMAT)
        await self._troubles.wait(self._random.uniform(0.0, 12.0))


class NobodyThere(Exception):
    """No broker is in the state that an act begins with."""


def _both(place: str) -> tuple[tuple[str, str], ...]:
    return (place, CATALOG), (CATALOG, place)
