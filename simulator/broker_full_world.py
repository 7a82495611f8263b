"""A world of several brokers in which single stores are full, or can only be read.

Everything else is as in `brokers_world.py`, with fewer clients of other kinds. What is
sent meanwhile is kept in another store, or refused. At the end everything that was
accepted is where it belongs, in order (`broker_lanes.py`), and every queue takes
messages again by way of every broker.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from simulator.broker_drain import drain_each
from simulator.broker_entities import PROPERTIES
from simulator.broker_lanes import (
    FIRST_NUMBER,
    FoundFragment,
    Lane,
    LaneAudit,
    LaneClient,
    send_last,
)
from simulator.broker_seat import Seat
from simulator.broker_shortages import Shortages
from simulator.broker_store import CommonStore
from simulator.broker_troubles import Troubles
from simulator.brokers_world import BrokersWorld
from simulator.process_loop import ProcessLoop
from simulator.sighting import Violation
from simulator.simulated_broker import SimulatedBroker
from twinbus.broker.fragment import MAIN
from twinbus.broker.home import Home
from twinbus.entities.namespace import Namespace
from twinbus.outbox.detour_watch import DetourWatch
from twinbus.outbox.outbox_carrier import OutboxCarrier
from twinbus.outbox.transfer_log import TransferSettings
from twinbus.owner.store_owner import StoreOwner
from twinbus.store.memory_disk import rows_of

Place = tuple[str, str | None]
"""A path, and a key."""

_SPREAD: Final = "lanes-spread"
_KEYS: Final = ("red", "green", "blue", None)
_CLIENTS: Final = 2

_UNTOLD: Final = "nobody tells what is kept"
_UNHEARD: Final = "its owner is not heard of"

_UNHEARD_SECONDS: Final = 4.5
"""Somewhat later others keep what is sent to the stores of a broker."""

_LOOK_SECONDS: Final = 0.25

_GIVES_UP_SECONDS: Final = 9.0
"""The new owner of a store waits longer for the one that may keep its messages."""


class BrokerFullWorld(BrokersWorld):
    """Everything that exists for one seed."""

    trouble_seconds = (10.0, 15.0, 25.0)

    def __init__(self, seed: int, loop: ProcessLoop) -> None:
        super().__init__(seed, loop)
        self._transfer = TransferSettings(keyed=self._random.random() < 0.5)
        self.lanes = LaneAudit()
        self._lane_paths: list[str] = []

    def _made_troubles(self, random: Random) -> Troubles:
        return Shortages(self, random, self._plot)

    # --- the story ------------------------------------------------------------

    async def _make_more(self, namespace: Namespace) -> None:
        """Each goes to the store with the fewest fragments."""
        for number in range(len(self.stores)):
            path = f"lanes-{number}"
            await namespace.create_queue(path, PROPERTIES)
            self._lane_paths.append(path)
        await namespace.create_queue(
            _SPREAD, {**PROPERTIES, "enable_partitioning": True}
        )
        self._lane_paths.append(_SPREAD)

    def _admit_clients(self) -> None:
        self._admit_client("client-0")
        for number in range(_CLIENTS):
            name = f"lanes-{number}"
            client = LaneClient(
                name,
                Random(self._random.random()),
                self.lanes,
                self._some_lanes(name),
                self._some_broker,
                lambda: self.is_quiet,
                self.tell,
                self.fail,
            )
            self._clients.append(client)
            self._living.append(self.new_process(name).run(client.live()))

    def _some_lanes(self, client: str) -> list[Lane]:
        random = self._random
        paths = random.sample(self._lane_paths[:-1], 2)
        places: list[Place] = [(path, None) for path in paths]
        places += [(_SPREAD, key) for key in random.sample(_KEYS, 2)]
        return [
            self._new_lane(client, place, is_identified=random.random() < 0.4)
            for place in places
        ]

    def _new_lane(self, client: str, place: Place, *, is_identified: bool) -> Lane:
        path, key = place
        lane = Lane(
            client=client,
            path=path,
            key=key,
            has_order=path != _SPREAD or key is not None,
            is_identified=is_identified,
        )
        return self.lanes.add(lane)

    # --- when there is no order -----------------------------------------------

    def watch_memory(self, broker: SimulatedBroker) -> None:
        super().watch_memory(broker)
        log = broker.namespace.transfer_log
        for owner, store in zip(broker.owners, self.stores, strict=True):
            assert isinstance(owner.carrier, OutboxCarrier)
            DoubtNote(self, store, owner.carrier.watch)
        was_served = partial(self._was_served, broker, log.was_served)
        log.was_served = was_served  # type: ignore[method-assign]

    def _was_served(
        self,
        broker: SimulatedBroker,
        was_served: Callable[[Home], bool],
        log: Home,
    ) -> bool:
        """Where nobody has served the store that may keep messages since this broker
        was started, it does not wait for it."""
        is_known = was_served(log)
        for owner, store in zip(broker.owners, self.stores, strict=True):
            if not is_known and broker.namespace.transfer_log.log_of(owner) is log:
                self.tell(f"the order of {store.name} is in doubt")
                self.lanes.order_in_doubt(store, _UNTOLD)
        return is_known

    async def _watch(self) -> None:
        noting = asyncio.create_task(self._note_unheard())
        await super()._watch()
        noting.cancel()

    async def _note_unheard(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            unheard = {
                store
                for seat in self.seats
                if not self._was_heard_of(seat)
                for store in seat.owned()
            }
            for store in self.stores:
                if store in unheard:
                    self.lanes.order_in_doubt(store, _UNHEARD)
                else:
                    self.lanes.order_is_known(store, _UNHEARD)

    def _was_heard_of(self, seat: Seat) -> bool:
        now = self.time()
        return self.catalog.was_heard_of(seat.place, now, _UNHEARD_SECONDS)

    # --- the end --------------------------------------------------------------

    async def _check_entities(self) -> list[str]:
        paths = await super()._check_entities()
        return [path for path in paths if path not in self._lane_paths]

    async def _drain(self) -> list[int]:
        await self._send_last()
        await self._until(self._are_outboxes_empty, "messages stay in an outbox")
        found = await self._found()
        self.lanes.concluded(found)
        taken = await super()._drain()
        random = Random(self._random.random())
        drains = drain_each(self._lane_paths, self._some_broker, random)
        received = await self._at_the_end(drains)
        numbers = [number for some in received.values() for number in some]
        self.lanes.check_received(numbers, found)
        return taken

    async def _send_last(self) -> None:
        places: list[Place] = [(path, None) for path in self._lane_paths[:-1]]
        places += [(_SPREAD, key) for key in _KEYS]
        for seat in self.seats:
            assert seat.broker is not None
            name = f"the last client of {seat.place}"
            lanes = [
                self._new_lane(name, place, is_identified=False) for place in places
            ]
            found = seat.place, seat.broker.client_port
            await self._at_the_end(send_last(self.lanes, lanes, found))

    async def _found(self) -> list[FoundFragment]:
        snapshot = await self.catalog.content.snapshot()
        paths = {entity.generation: entity.path for entity in snapshot.entities}
        return [
            FoundFragment(
                path=paths[record.generation],
                store=store,
                numbers=_numbers_in(store, number),
            )
            for store in self.stores
            for number, record in sorted(store.disk.fragments.items())
            if paths.get(record.generation) in self._lane_paths
            and record.sub_queue == MAIN
        ]


class DoubtNote:
    """Notes when the watch of an owner gives up to wait for what may be kept for its
    store, and when it knows what is."""

    def __init__(
        self, world: BrokerFullWorld, store: CommonStore, watch: DetourWatch
    ) -> None:
        self._world = world
        self._store = store
        self._watch = watch
        self._begin_honestly = watch.begin
        self._watch_honestly = watch._watch
        self._give_up_honestly = watch._give_up
        watch.begin = self._begin  # type: ignore[method-assign]
        watch._watch = self._watch_on  # type: ignore[method-assign]
        watch._give_up = self._give_up  # type: ignore[method-assign]

    async def _begin(self) -> None:
        await self._begin_honestly()
        if not self._watch._is_unknown:
            self._world.lanes.order_is_known(self._store, _UNTOLD)

    async def _watch_on(self, log: StoreOwner, began_at: int) -> None:
        await self._watch_honestly(log, began_at)
        self._world.lanes.order_is_known(self._store, _UNTOLD)

    def _give_up(self) -> None:
        """It does not wait any more."""
        world, store, epoch = self._world, self._store, self._watch._store.epoch
        waited = world.time() - store.began_at[epoch]
        if waited < _GIVES_UP_SECONDS:
            world.fail(Violation(f"{store.name} is not waited for: {waited:.1f} s"))
        world.tell(f"the order of {store.name} is given up")
        world.lanes.order_in_doubt(store, _UNTOLD)
        self._give_up_honestly()


def _numbers_in(store: CommonStore, fragment_number: int) -> list[int]:
    """Of the messages of a fragment, in their order."""
    rows = store.disk.active.between(*rows_of(fragment_number))
    numbers = [int(bytes(row.raw)[-8:]) for row in rows]
    assert all(number >= FIRST_NUMBER for number in numbers)
    return numbers
