"""A world with several brokers that share stores: decision 0017, from a seed.

Brokers are simulated processes with clocks of their own; what runs in them is real, and
so is the AMQP between them and with their clients (`simulated_broker.py`). A seed
decides by its remainder what its world is about (`broker_plots.py`), and by chance
where its brokers are (`broker_places.py`): on one machine, where they see each other's
processes and some stores are files, in containers of one machine, or on machines of
their own, where all leases have a term.

While troubles come and go, clients send, receive and settle at any broker. At any time:
a store is written to in its last epoch only, and what clients see is what the audit
allows. Whenever the troubles are over: each store gets an owner in time. At the end all
messages are received by way of any broker, and counted.
"""

import asyncio
import math
from collections.abc import Callable, Coroutine
from functools import partial
from random import Random
from typing import Any, ClassVar, Final, TypeVar

from simulator.broker_audit import LOCK_MS, BrokerAudit
from simulator.broker_bulk import RangeAudit
from simulator.broker_catalog import SharedCatalog
from simulator.broker_clients import BrokerClient
from simulator.broker_drain import drain, listed
from simulator.broker_entities import PROPERTIES, EntityAudit
from simulator.broker_machine import System, VisibleProcesses
from simulator.broker_network import Cuts, Network
from simulator.broker_onlooker import Onlooker
from simulator.broker_places import places_for
from simulator.broker_plots import Plot, plot_of
from simulator.broker_probe import probe
from simulator.broker_roaming import RoamingClient
from simulator.broker_seat import Seat
from simulator.broker_store import FIRST_FORMAT, CommonStore
from simulator.broker_troubles import Troubles
from simulator.broker_visit import RANGES, SESSIONS, TAKEN
from simulator.broker_visit import Troubles as ClientTroubles
from simulator.process_loop import ProcessClock, ProcessLoop, SimulatedProcess
from simulator.sighting import Violation
from simulator.simulated_broker import SimulatedBroker
from simulator.store_check import check_content, in_memory
from simulator.trace import Trace
from twinbus.broker.changes import StoredRule
from twinbus.entities.namespace import Namespace
from twinbus.outbox.transfer_log import DOCUMENTED_TRANSFER
from twinbus.owner.sharing import Sharing

T = TypeVar("T")

_OWNER_SECONDS: Final = 25.0
"""So soon each store has an owner, when nothing is in the way."""

_SHARED_SECONDS: Final = 100.0
"""So soon all have equal shares: a broker that could not open a store leaves it to the
others for a minute."""

_LOOK_SECONDS: Final = 0.25

_TIDY_SECONDS: Final = 5
"""So long a broker that starts alone may take to complete what others began."""

_RATES: Final = (0.98, 1.0, 1.0, 1.02)
"""How fast clocks run."""

_BAD_RATES: Final = (0.93, 1.07)
"""The same of bad ones: the margin of a lease is a fifth of its term."""

_WATCHED: Final = (Plot.ASLEEP, Plot.UNANNOUNCED, Plot.UNRENEWED, Plot.HIDDEN)
"""In these a broker may deliver what it must not, for a moment."""

_KNOWN_SECONDS: Final = 3.0
"""So soon others know of a broker, if they look at all."""


class BrokersWorld:
    """Everything that exists for one seed."""

    trouble_seconds: ClassVar[tuple[float, ...]] = (10.0, 20.0, 40.0)
    """For how long there may be some."""

    def __init__(self, seed: int, loop: ProcessLoop) -> None:
        self._random = random = Random(seed)
        self._loop = loop
        loop.set_exception_handler(self._on_exception)
        self.trace = Trace()
        self._failure: AssertionError | None = None
        self.cuts = Cuts()
        self._network = Network(loop, Random(random.random()), self.cuts)
        self.catalog = SharedCatalog(self.cuts)
        self._plot = plot_of(seed)
        self._system = System()
        self._places = places_for(self._plot, Random(random.random()))
        self.audit = BrokerAudit(self.fail)
        self._entities = EntityAudit()
        self._ranges = RangeAudit()
        # In a world of updates stores move whenever a broker comes or goes.
        is_updated = self._plot is Plot.UPDATED
        store_count = 4 if is_updated else random.randint(2, 4)
        self.stores = [self._store(number) for number in range(store_count)]
        self.first_count = random.randint(2, 3 if is_updated else 4)
        rates = _BAD_RATES if self._plot is Plot.UNRENEWED else _RATES
        self.seats = [
            Seat(self, number, random.choice(rates))
            for number in range(self.first_count)
        ]
        self._paths: list[str] = []
        self._clients: list[RoamingClient] = []
        self._living: list[asyncio.Task[None]] = []
        # Clients do nothing that must be committed.
        self.is_quiet = False
        self._troubles = self._made_troubles(Random(random.random()))
        self._starting: list[asyncio.Task[None]] = []
        # What is kept for a store that is away.
        self._transfer = DOCUMENTED_TRANSFER
        # Since when nobody serves a store.
        self._unserved_since: dict[CommonStore, float] = {}

    def _made_troubles(self, random: Random) -> Troubles:
        return Troubles(self, random, self._plot)

    def _store(self, number: int) -> CommonStore:
        random = Random(self._random.random())
        store = CommonStore(
            f"store-{number}", random, self.cuts, self.fail, self._migrated
        )
        store.is_file = self._places.has_files and random.random() < 0.5
        if self._plot is Plot.ASLEEP_IN_A_FILE and number == 0:
            store.is_file = True
        return store

    def new_process(self, place: str, rate: float = 1.0) -> SimulatedProcess:
        dwelling = self._places.dwelling_of(place)
        identity = self._system.new_identity(dwelling)
        clock = ProcessClock(self._loop, rate)
        process = SimulatedProcess(self._loop, place, identity, clock)
        process.on_end.append(lambda: self.tell(f"{place} has ended"))
        self._loop.add(process)
        self._system.add(process, dwelling)
        return process

    def new_broker(
        self, process: SimulatedProcess, sharing: Sharing, newest_format: int
    ) -> SimulatedBroker:
        dwelling = self._places.dwelling_of(process.place)
        return SimulatedBroker(
            process,
            self._network,
            self.catalog,
            self.stores,
            Random(self._random.random()),
            processes=VisibleProcesses(self._system, process, dwelling),
            newest_format=newest_format,
            sharing=sharing,
            transfer=self._transfer,
            on_locks_made=partial(self.audit.locks_made, process.clock),
            on_detached=partial(self.audit.receivers_detached, process.clock),
            on_bug=self._on_bug,
        )

    # --- processes ------------------------------------------------------------

    def _migrated(self, store: CommonStore) -> None:
        """Notes a violation if a broker that others know of cannot read it now."""
        self.tell(f"{store.name} has the format {store.format}")
        now = self._loop.time()
        for seat in self.seats:
            is_old = seat.newest_format < store.format and seat.process.is_running
            if is_old and self.catalog.is_known(seat.place, now, _KNOWN_SECONDS):
                self.fail(
                    Violation(
                        f"{store.name} has the format {store.format}, which "
                        f"{seat.place} cannot read"
                    )
                )

    def watch_memory(self, broker: SimulatedBroker) -> None:
        """Learn when owners read everything anew: locks are lost then."""
        for owner, store in zip(broker.owners, self.stores, strict=True):
            before = owner.on_restored
            assert before is not None

            owner.on_restored = partial(self._restored, store, before)

    def _restored(
        self,
        store: CommonStore,
        restore_rules: Callable[[list[StoredRule]], None],
        rules: list[StoredRule],
    ) -> None:
        self.audit.locks_lost(store)
        restore_rules(rules)

    def note_relayed(self) -> None:
        """A broker that passes messages on to a client may be lost now, or the owner
        that it gets them from. What was deleted and is on its way is lost with them,
        though the client keeps its link."""
        clients = [one for one in self._clients if isinstance(one, BrokerClient)]
        self.audit.credit_lost(sum(client.open_credit for client in clients))

    # --- what happens ---------------------------------------------------------

    def tell(self, what: str) -> None:
        self.trace.add(round(self._loop.time() * 1000), what)

    def fail(self, violation: AssertionError) -> None:
        """Noted where it cannot be raised; the first one counts."""
        if self._failure is None:
            self.tell(f"FAILURE {violation}")
            self._failure = violation

    def check(self) -> None:
        """Raises what was noted."""
        if self._failure is not None:
            raise self._failure

    def _on_bug(self, bug: BaseException) -> None:
        violation = Violation(f"a bug: {bug!r}")
        violation.__cause__ = bug
        self.fail(violation)

    def _on_exception(self, loop: object, context: dict[str, Any]) -> None:
        """Of a callback."""
        self._on_bug(context.get("exception") or Violation(context["message"]))

    def time(self) -> float:
        return self._loop.time()

    # --- the story ------------------------------------------------------------

    async def live(self) -> None:
        try:
            await self._live()
        finally:
            await self._loop.end_all()
            self._network.end()

    async def _live(self) -> None:
        await self.catalog.open()
        await self._prepare()
        await asyncio.gather(*(seat.start() for seat in self.seats))
        watching = asyncio.create_task(self._watch())
        await self._until(self._are_served, "the stores are not served at the start")
        self._admit_clients()
        await self._troubles.go_on(self._random.choice(self.trouble_seconds))
        await self._conclude()
        watching.cancel()

    async def _prepare(self) -> None:
        """Make stores and queues, as the first start does."""
        process = self.new_process("preparation")
        broker = self.new_broker(process, Sharing.ALONE, FIRST_FORMAT)
        await process.run(self._make_queues(broker))
        process.end()

    async def _make_queues(self, broker: SimulatedBroker) -> None:
        await broker.open()
        more: dict[str, dict[str, bool]] = {
            **{f"queue-{number}": {} for number in range(len(self.stores))},
            "spread": {"enable_partitioning": True},
            SESSIONS: {"requires_session": True},
            TAKEN: {},
            RANGES: {"enable_partitioning": True},
        }
        for path, properties in more.items():
            await broker.namespace.create_queue(path, {**PROPERTIES, **properties})
        self._paths = [queue.path for queue in broker.namespace.queues()]
        await self._make_more(broker.namespace)
        # What is told to the catalog after a creation.
        await asyncio.sleep(2)
        await broker.close()

    async def _make_more(self, namespace: Namespace) -> None:
        """Entities of other worlds."""

    def _admit_clients(self) -> None:
        for number in range(self._random.randint(2, 4)):
            self._admit_client(f"client-{number}")
        if self._plot in _WATCHED:
            self._admit_onlooker()

    def _admit_client(self, name: str) -> None:
        process = self.new_process(name)
        client = BrokerClient(
            name,
            Random(self._random.random()),
            process.clock,
            (self.audit, self._entities, self._ranges),
            self._paths,
            self._some_broker,
            lambda: self.is_quiet,
            0.3 if self._plot is Plot.ANYTHING else 0.1,
            self.tell,
            self.fail,
        )
        self._clients.append(client)
        self._living.append(process.run(client.live()))

    def _admit_onlooker(self) -> None:
        onlooker = Onlooker(
            "onlooker",
            Random(self._random.random()),
            self.audit,
            [path for path in self._paths if path.startswith("queue-")],
            self._some_broker,
            self.fail,
        )
        self._clients.append(onlooker)
        self._living.append(self.new_process(onlooker.name).run(onlooker.live()))

    def _some_broker(self, random: Random) -> tuple[str, int] | None:
        seats = [one for one in self.seats if one.broker is not None]
        broker = random.choice(seats).broker
        if broker is None or not broker.client_port:
            return None
        return broker.process.place, broker.client_port

    # --- owners ---------------------------------------------------------------

    async def _watch(self) -> None:
        """Starts brokers again, as a supervisor does. Notes a store that has no owner
        for too long, with nothing in the way."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = self._loop.time()
            for seat in filter(Seat.must_start, self.seats):
                self._troubles.changed()
                self._starting.append(asyncio.create_task(seat.start()))
            for store in self.stores:
                if self._is_served(store):
                    self._unserved_since.pop(store, None)
                    continue
                since = self._unserved_since.setdefault(store, now)
                since = max(since, self._troubles.changed_at)
                if self._must_be_served() and now - since > _OWNER_SECONDS:
                    self.fail(Violation(f"{store.name} has no owner"))

    def _must_be_served(self) -> bool:
        """Some broker is up, and nothing keeps it from its work."""
        is_somebody_up = any(seat.is_up for seat in self.seats)
        return is_somebody_up and not self._troubles.is_in_the_way()

    def _is_served(self, store: CommonStore) -> bool:
        return any(
            seat.broker is not None and seat.broker.serves(store) for seat in self.seats
        )

    def served(self) -> set[CommonStore]:
        """The stores that have an owner."""
        return set(filter(self._is_served, self.stores))

    def _are_served(self) -> bool:
        return all(map(self._is_served, self.stores))

    def _are_shared_equally(self) -> bool:
        shares = [
            sum(seat.broker is not None and seat.broker.serves(s) for s in self.stores)
            for seat in self.seats
        ]
        return sum(shares) == len(self.stores) and max(shares) - min(shares) <= 1

    def _are_outboxes_empty(self) -> bool:
        return not any(store.disk.outbox for store in self.stores)

    async def _until(
        self, condition: Callable[[], bool], what: str, seconds: float = 60.0
    ) -> None:
        ends_at = self._loop.time() + seconds
        while not condition():
            self.check()
            if self._loop.time() > ends_at:
                raise Violation(what)
            await asyncio.sleep(_LOOK_SECONDS)

    # --- the end --------------------------------------------------------------

    async def _conclude(self) -> None:
        """Nothing is in the way any more: all that was accepted can be received."""
        self.tell("no more troubles")
        for seat in self.seats:
            await seat.start()
            for store in seat.stores():
                store.rest()
        for client in self._clients:
            client.is_leaving = True
        await asyncio.gather(*self._living)
        if self._plot is Plot.UPDATED:
            await self._troubles.finish_update()
        await self._until(self._are_served, "stores are not served at the end")
        await self._until(
            self._are_shared_equally, "shares are not equal", _SHARED_SECONDS
        )
        await self._until(self._are_outboxes_empty, "messages stay in an outbox")
        # Until no lock is left.
        await asyncio.sleep(1.2 * LOCK_MS / 1000)
        self.check()
        random = Random(self._random.random())
        await self._at_the_end(
            probe(self._paths, self._some_broker, random, self.audit)
        )
        taken = await self._drain()
        self.check()
        self.audit.concluded(taken, TAKEN, self._entities.may_have_lost)
        for seat in self.seats:
            seat.stays_down(math.inf)
            await seat.stop()
        self.check()
        await self._look_behind()

    async def _drain(self) -> list[int]:
        paths = await self._check_entities()
        random = Random(self._random.random())
        return await self._at_the_end(drain(paths, self._some_broker, random))

    async def _at_the_end(self, work: Coroutine[Any, Any, T]) -> T:
        process = self.new_process("drain")
        try:
            return await process.run(work)
        except ClientTroubles as error:
            raise Violation(
                f"messages cannot be sent or received at the end: {error!r}"
            ) from error

    async def _check_entities(self) -> list[str]:
        """All brokers tell the same ones: those that were made, and not deleted."""
        process, found = self.new_process("survey"), list[list[str]]()
        for seat in self.seats:
            assert seat.broker is not None
            found.append(await process.run(listed(seat.place, seat.broker.client_port)))
        if any(paths != found[0] for paths in found):
            raise Violation(f"brokers have different entities: {found}")
        for known in self._entities.paths.values():
            known.check_present(known.path in found[0])
        if missing := set(self._paths) - set(found[0]):
            raise Violation(f"entities are lost: {sorted(missing)}")
        return found[0]

    async def _look_behind(self) -> None:
        if left := await self.catalog.content.brokers():
            raise Violation(f"{len(left)} brokers are still announced")
        for store in self.stores:
            if store.is_held:
                raise Violation(f"{store.name} was not given back")
        await self._tidy_up()
        if unfinished := await self.catalog.content.unfinished():
            raise Violation(f"changes of entities are unfinished: {unfinished}")
        snapshot = await self.catalog.content.snapshot()
        known = {entity.generation for entity in snapshot.entities}
        for store in self.stores:
            content = in_memory(store.disk)
            check_content(content)
            if any(record[0] for record in content.records.values()):
                raise Violation(f"{store.name} still counts messages")
            held = {record.generation for record in store.disk.fragments.values()}
            if strangers := held - known:
                raise Violation(f"{store.name} has fragments of {strangers}")

    async def _tidy_up(self) -> None:
        """A broker that has all stores for itself completes what was begun."""
        process = self.new_process("tidying")
        newest = max(seat.newest_format for seat in self.seats)
        broker = self.new_broker(process, Sharing.ALONE, newest)

        async def tidy() -> None:
            await broker.open()
            for _ in range(_TIDY_SECONDS):
                await asyncio.sleep(1)
                broker.owners.tick()
                broker.namespaces.tick(broker.clock.now())
            await broker.close()

        await process.run(tidy())
        process.end()
        self.check()
