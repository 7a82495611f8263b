"""A client and the bus's side of one session, with a queue in memory.

The home commits when the test says so; frames are transferred when the test pumps.
"""

from typing import Any

from unit.amqp.endpoints import EndpointPair, of_type
from unit.broker.world import run

from twinbus.amqp.events import (
    DispositionReceived,
    Event,
    LinkAttached,
    LinkFlow,
    MessageReceived,
)
from twinbus.amqp.link import Link
from twinbus.amqp.messaging import Source, Target
from twinbus.amqp.transactions import Coordinator as AmqpCoordinator
from twinbus.broker.admission import Admission, Duplicates
from twinbus.broker.changes import ChangeSet
from twinbus.broker.commit_listener import Listeners
from twinbus.broker.dispatch import Dispatch
from twinbus.broker.fragment import Fragment
from twinbus.broker.fragment_settings import FragmentSettings
from twinbus.broker.fragment_table import FragmentTable
from twinbus.broker.home import Home
from twinbus.broker.message import Message
from twinbus.broker.receiver import Receiver
from twinbus.broker.transaction import TransactionLimits
from twinbus.errors import ServiceBusError
from twinbus.fragments.fragment_source import FragmentSource
from twinbus.fragments.routing import Routing
from twinbus.links.arrivals import Arrivals
from twinbus.links.coordinator import Coordinator
from twinbus.links.coordinator_link import CoordinatorLink
from twinbus.links.deliveries import apply_deliveries
from twinbus.links.extensions import Extensions
from twinbus.links.merged_receive_link import MergedReceiveLink
from twinbus.links.output import Output, Outputs
from twinbus.links.receive_link import ReceiveLink
from twinbus.links.routes import Routes
from twinbus.links.send_link import SendLink
from twinbus.store.memory import MemoryStore
from twinbus.store.opening import open_store

NOW = 1_800_000_000_000
GENERATION = bytes(16)
BODY = b"\x00\x53\x77\xa1\x02hi"


class LocalHome(Home):
    """Where one fragment lives; commits are made by the test."""

    def __init__(self, settings: FragmentSettings, index: int = 0) -> None:
        super().__init__(self.entropy)
        self.now = NOW
        self.store = MemoryStore()
        self.epoch = run(open_store(self.store, "test", NOW)).epoch
        self.batch = 0
        self.table = FragmentTable(self.epoch, [], self)
        self.table.admit(GENERATION, settings)
        self.wake_count = 0
        self.admissions: list[Admission] = []
        self.expected: list[int] = []
        self.entropy_count = 0
        self.fragment = self.table.create(GENERATION, index, self.changes)
        self.dispatch = Dispatch(self.fragment, None, self.entropy)
        self.commit()

    def wake(self) -> None:
        self.wake_count += 1

    def admit(self, admission: Admission) -> None:
        self.admissions.append(admission)
        self.wake()

    def apply_admissions(self) -> None:
        """Look up and apply what waits, as before a commit."""
        waiting, self.admissions = self.admissions, []
        duplicates = Duplicates()
        for admission in waiting:
            for i, fragment in enumerate(admission.fragments):
                asked = [admission.unique_ids[i]]
                found = run(self.store.seen(fragment.number, asked, self.now))
                duplicates.add(fragment.number, found)
            for origin in admission.origins:
                source, generation = origin.source, origin.generation
                numbers = run(self.store.restored(source, generation, [origin.first]))
                duplicates.add_restored(source, generation, numbers)
        for admission in waiting:
            admission.apply(duplicates, self.now)

    def expect(self, scheduled_at: int) -> None:
        self.expected.append(scheduled_at)

    def join(self, fragment: Fragment, receiver: Receiver) -> None:
        self.dispatch.join(receiver)

    def leave(self, fragment: Fragment, receiver: Receiver) -> None:
        self.dispatch.leave(receiver)

    def offer_capacity(self, fragment: Fragment, receiver: Receiver) -> None:
        self.dispatch.offer_capacity(receiver)
        self.deliver()

    def deliver(self) -> None:
        self.dispatch.deliver(self.now, self.changes)
        if not self.dispatch.wants_refill():
            self.dispatch.served()

    def entropy(self, count: int) -> bytes:
        self.entropy_count += 1
        return self.entropy_count.to_bytes(5, "big") * (count // 5)

    def txn_ids(self, count: int) -> bytes:
        self.entropy_count += 1
        return self.entropy_count.to_bytes(count, "big")

    def enqueue(self, count: int = 1, raw: bytes = BODY) -> None:
        """Messages of somebody else, durable."""
        for _ in range(count):
            self.fragment.enqueue(Message(raw, 4 << 2, 0, 0), 9, NOW, self.changes)
        self.commit()

    def commit(self) -> None:
        self.apply_admissions()
        changes, listeners = self.changes, self.listeners
        self.changes, self.listeners = ChangeSet(self), Listeners()
        promises = self.dispatch.take_promises() if self.batch else []
        self.batch += 1
        changes.seal(self.epoch, self.batch, self.now)
        run(self.store.commit(changes))
        changes.publish()
        listeners.committed()
        for receiver, messages in promises:
            receiver.promised_count -= len(messages)
            receiver.deliver_removed(messages)
        self.deliver()

    def fail(self, error: ServiceBusError) -> None:
        listeners = self.listeners
        self.changes, self.listeners = ChangeSet(self), Listeners()
        self.dispatch.forget_promises()
        listeners.failed(error)
        self.table.restore(run(self.store.fragments()))


class World:
    """One session between a client and a bus with the queue `orders`."""

    def __init__(self, **settings: Any) -> None:
        self.home = LocalHome(FragmentSettings(path="orders", **settings))
        self.fragment = self.home.fragment
        self.pair = EndpointPair()
        self.pair.open()
        self.session, self.bus_session = self.pair.begin()
        self.outputs = Outputs()
        self.writes = 0
        self.output = Output(self.outputs, self._write)
        self.coordinator = Coordinator(TransactionLimits(), self.home.txn_ids)

    def _write(self) -> None:
        self.writes += 1

    def sender(
        self, *, limit: int = 1_000, restores: bool = True
    ) -> tuple[Link, SendLink]:
        """A link of the client's and what the bus made of it."""
        link = self.session.attach_sender("tx", Source(), Target(address="orders"))
        bus_link = self._attached()
        arrivals = Arrivals(
            "orders", Extensions(), limit, may_restore=lambda _: restores
        )
        made = SendLink(
            bus_link,
            self.fragment,
            1,
            arrivals,
            self.output,
            self.coordinator,
            routes=self.routes(),
        )
        bus_link.context = made
        bus_link.accept(
            max_message_size=limit, tolerated_message_size=arrivals.tolerated_bytes
        )
        made.start()
        self.pump()
        return link, made

    def routes(self) -> Routes | None:
        """The queue has one fragment."""
        return None

    def controller(self) -> Link:
        """A control link of the client's."""
        link = self.session.attach_sender("ctl", Source(), AmqpCoordinator())
        bus_link = self._attached()
        made = CoordinatorLink(bus_link, self.coordinator, self.output)
        bus_link.context = made
        bus_link.accept()
        made.start()
        self.pump()
        return link

    def receiver(
        self, *, peek_lock: bool = True, name: str = "rx"
    ) -> tuple[Link, ReceiveLink]:
        link = self.session.attach_receiver(name, Source(address="orders"), Target())
        bus_link = self._attached()
        made = ReceiveLink(bus_link, self.fragment, 2, peek_lock, self.output)
        bus_link.context = made
        bus_link.accept()
        self.pump()
        return link, made

    def _attached(self) -> Link:
        [attached] = of_type(self.pair.pump().server, LinkAttached)
        return attached.link

    def pump(self) -> list[Event]:
        """Let frames travel until both sides are silent; what the client saw."""
        seen: list[Event] = []
        while True:
            events = self.pair.pump()
            seen += events.client
            if not events.server:
                return seen
            self._apply(events.server)
            self.outputs.flush()

    def _apply(self, events: list[Event]) -> None:
        at = apply_deliveries(events, 0, self.coordinator, self.output, self.home.now)
        while at < len(events):
            event = events[at]
            if isinstance(event, LinkFlow) and isinstance(
                event.link.context, ReceiveLink | MergedReceiveLink
            ):
                event.link.context.offer_capacity()
            elif isinstance(event, MessageReceived):
                assert isinstance(event.link.context, CoordinatorLink)
                event.link.context.on_message(event, self.home.now)
            at = apply_deliveries(
                events, at + 1, self.coordinator, self.output, self.home.now
            )

    def deliveries(self) -> list[MessageReceived]:
        return of_type(self.pump(), MessageReceived)

    def verdicts(self) -> list[tuple[int, int, object]]:
        """Ranges of settled dispositions that the client got, and their states."""
        return verdicts_in(self.pump())


class PartitionedWorld(World, FragmentSource):
    """The same with fragments in several stores."""

    def __init__(self, fragment_count: int, **settings: Any) -> None:
        super().__init__(**settings)
        described = self.fragment.settings
        others = [LocalHome(described, index) for index in range(1, fragment_count)]
        self.homes = [self.home, *others]
        self.routing = Routing("orders", fragment_count, self)

    def find_fragment(self, index: int) -> Fragment | None:
        return self.homes[index].fragment

    def routes(self) -> Routes:
        return Routes(self.routing, lambda _: 1, lambda: NOW)

    def merged(self, *, peek_lock: bool = True) -> tuple[Link, MergedReceiveLink]:
        link = self.session.attach_receiver("rx", Source(address="orders"), Target())
        bus_link = self._attached()
        made = MergedReceiveLink(bus_link, "orders", peek_lock, self.output)
        for home in self.homes:
            made.join(home.fragment, 2)
        bus_link.context = made
        bus_link.accept()
        self.pump()
        return link, made

    def counts(self) -> list[int]:
        """Messages of each fragment."""
        return [home.fragment.active_count for home in self.homes]

    def commit(self) -> None:
        for home in self.homes:
            home.commit()


def verdicts_in(events: list[Event]) -> list[tuple[int, int, object]]:
    found = of_type(events, DispositionReceived)
    assert all(event.settled for event in found)
    return [(event.first, event.last, event.state) for event in found]
