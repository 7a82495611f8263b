"""An AMQP connection that faults can hit. Without `allow_faults` there is none.

It looks at each event before it is applied, and at what is written. A message that is
refused by a fault is answered as one that the entity does not take. Receivers that are
attached when a fault begins are detached: they would wait for messages otherwise.
Settlements and renewals are not refused, since those messages were received before.
Links that are passed on to another broker are hit here, and not there.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from twinbus.amqp.events import (
    DispositionReceived,
    Event,
    LinkAttached,
    LinkFlow,
    MessageReceived,
)
from twinbus.amqp.link import Link
from twinbus.amqp.messaging import Source
from twinbus.amqp.transactions import TransactionalState
from twinbus.auth.resource import address_path
from twinbus.broker.entity_path import parse_entity_path
from twinbus.broker.message_lock import MessageLock
from twinbus.doors.amqp import cbs
from twinbus.doors.amqp.amqp_connection import (
    AmqpConnection,
    QueueLink,
    ReceivingLink,
)
from twinbus.doors.amqp.faulty_node import FaultyNode, entity_of
from twinbus.doors.amqp.host import Host
from twinbus.doors.amqp.request_links import Node
from twinbus.entities.namespace import Namespace
from twinbus.errors import ServiceBusError
from twinbus.faults.fault import Effect, InjectedFault, Operation
from twinbus.faults.faults import Faults
from twinbus.links.receive_link import ReceiveLink
from twinbus.links.refusal import amqp_error
from twinbus.links.send_link import SendLink
from twinbus.peers.receive_relay import ReceiveRelay, RemoteDeliveries
from twinbus.peers.send_relay import SendRelay

AnyReceiver = ReceivingLink | ReceiveRelay


class FaultyAmqpConnection(AmqpConnection):
    """The asyncio protocol of one client's connection."""

    __slots__ = ("_faults", "_is_admitted", "_is_cut", "_is_mute")

    def __init__(
        self, host: Host, faults: Faults, *, is_admitted: bool = False
    ) -> None:
        """`is_admitted`: no fault hit it when it connected, which is asked once."""
        super().__init__(host)
        self._faults = faults
        self._is_admitted = is_admitted
        # Nothing more is done for the client.
        self._is_cut = False
        # What would be written next is not: the connection is cut instead.
        self._is_mute = False

    def _enter(self, namespace: Namespace) -> None:
        super()._enter(namespace)
        self._faults = self._faults.within(namespace.name)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if not self._is_admitted and self._faults.refuses_connection():
            self.cut_off()

    def cut_off(self) -> None:
        """End the connection as a broken network does."""
        self._is_cut = True
        self.abort()

    def mute(self) -> None:
        """End the connection instead of the next answer."""
        self._is_mute = True

    def flush(self) -> None:
        if not self._is_mute:
            super().flush()
        elif self._engine.data_to_send():
            self.cut_off()

    # --- events ---------------------------------------------------------------

    def _on_events(self, events: list[Event]) -> None:
        for event in events:
            if not self._is_cut and not self._is_hit(event):
                super()._on_events([event])

    def _is_hit(self, event: Event) -> bool:
        """The event is not applied."""
        if isinstance(event, MessageReceived):
            link = event.link.context
            if isinstance(link, SendLink | SendRelay):
                return self._is_send_hit(link, event)
        if isinstance(event, LinkAttached):
            return self._is_attach_hit(event.link)
        if isinstance(event, LinkFlow):
            receiver = event.link.context
            if isinstance(receiver, AnyReceiver) and event.link.credit > 0:
                return self._is_receiver_hit(receiver)
        if isinstance(event, DispositionReceived):
            return self._is_settlement_hit(event)
        return False

    def _is_send_hit(self, link: SendLink | SendRelay, event: MessageReceived) -> bool:
        entity = entity_of(link.path)
        if self._is_dropped(Operation.SEND, entity):
            return True
        error = self._faults.refusal(Operation.SEND, entity)
        if error is not None:
            self._doom(event, error)
            link.refuse(event, error)
        elif self._faults.leaves_unanswered(Operation.SEND, entity):
            self.mute()
        return error is not None

    def _doom(self, event: MessageReceived, error: ServiceBusError) -> None:
        """A transaction with a refused message cannot be committed."""
        if isinstance(event.state, TransactionalState):
            with suppress(ServiceBusError):
                self.coordinator.find(event.state.txn_id, self.clock.now()).doom(error)

    def _is_attach_hit(self, link: Link) -> bool:
        entity = _received_from(link)
        if entity is None:
            return False
        if self._is_dropped(Operation.RECEIVE, entity):
            return True
        error = self._faults.refusal(Operation.RECEIVE, entity)
        if error is not None:
            link.refuse(amqp_error(error))
        return error is not None

    def _is_receiver_hit(self, link: AnyReceiver) -> bool:
        entity = entity_of(link.path)
        if self._is_dropped(Operation.RECEIVE, entity):
            return True
        error = self._faults.refusal(Operation.RECEIVE, entity)
        if error is not None:
            self._detached(link)
            if isinstance(link, ReceiveRelay):
                link.end_client(amqp_error(error))
            else:
                link.detach(error)
            # Its client settles what it has by token, as after any detach.
            link.forget_deliveries()
        return error is not None

    def _is_settlement_hit(self, event: DispositionReceived) -> bool:
        session = event.session
        found = session.find_unsettled(event.first, event.last)
        locks = [session.unsettled[delivery_id] for delivery_id in found]
        for entity in {entity for lock in locks for entity in _entities_of(lock)}:
            if self._is_dropped(Operation.RECEIVE, entity):
                return True
            if self._faults.leaves_unanswered(Operation.RECEIVE, entity):
                self.mute()
        return False

    def _is_dropped(self, operation: Operation, entity: str) -> bool:
        if self._faults.drops(operation, entity):
            self.cut_off()
        return self._is_cut

    # --- requests -------------------------------------------------------------

    def node(self, address: str, make: Callable[[AmqpConnection], Node]) -> Node:
        if address == cbs.ADDRESS:
            return super().node(address, make)

        def make_faulty(connection: AmqpConnection) -> Node:
            return FaultyNode(make(connection), self._faults, self)

        return super().node(address, make_faulty)

    # --- faults that begin ----------------------------------------------------

    def on_fault(self, fault: InjectedFault) -> None:
        """A fault was set: it hits what is attached already."""
        if fault.effect is Effect.DROP:
            self._drop_if_attached(fault)
            return
        for link in [one for one in self._links if isinstance(one, AnyReceiver)]:
            if not self._is_cut:
                self._is_receiver_hit(link)
        self.output.mark()

    def _drop_if_attached(self, fault: InjectedFault) -> None:
        """A connection without links counts as one that will do anything."""
        occasions = {_occasion(link) for link in self._links}
        for operation, entity in occasions or {(one, "") for one in fault.operations}:
            if self._is_dropped(operation, entity):
                return


def _occasion(link: QueueLink) -> tuple[Operation, str]:
    is_sender = isinstance(link, SendLink | SendRelay)
    operation = Operation.SEND if is_sender else Operation.RECEIVE
    return operation, entity_of(link.path)


def _entities_of(lock: object) -> list[str]:
    """Of what the session keeps for an unsettled delivery; none if it is not one that
    faults can hit."""
    if isinstance(lock, RemoteDeliveries):
        return [entity_of(lock.path)]
    if not isinstance(lock, MessageLock):
        return []
    link = lock.holder
    return [entity_of(link.path) if isinstance(link, ReceiveLink) else ""]


def _received_from(link: Link) -> str | None:
    """The entity that a client attaches to as a receiver; None if it does not."""
    source = link.source
    if not link.peer_is_receiver or not isinstance(source, Source):
        return None
    if not isinstance(source.address, str):
        return None
    try:
        path = parse_entity_path(address_path(source.address))
    except ServiceBusError:
        return None
    is_node = path.is_management or source.address.lower() == cbs.ADDRESS
    return None if is_node else path.entity
