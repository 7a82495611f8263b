"""A client sends to an entity that another broker owns.

The bytes are passed on as they came, and the client is answered when the owner has
answered. If the connection to the owner ends before that, nobody knows whether the
message is stored: the client gets a retryable error, and it is not sent elsewhere.
"""

from collections import deque
from typing import TYPE_CHECKING, Final

from twinbus.amqp.errors import AmqpError
from twinbus.amqp.events import DispositionReceived, MessageReceived
from twinbus.amqp.link import Link
from twinbus.amqp.messaging import Source, Target
from twinbus.amqp.outcomes import encode_rejected
from twinbus.amqp.performatives import SENDER_MIXED
from twinbus.amqp.session import AmqpSession
from twinbus.amqp.types import ULong
from twinbus.errors import InternalError, ServiceBusError
from twinbus.limits import CREDIT
from twinbus.links.arrivals import Arrivals
from twinbus.links.output import Output
from twinbus.links.refusal import amqp_error, overrun
from twinbus.links.relayed_enlistment import RelayedEnlistment
from twinbus.peers.peer_properties import Properties, without_own
from twinbus.peers.relay import Relay, Runs, encoded_state

if TYPE_CHECKING:
    from twinbus.peers.peer_connection import PeerConnection

_TOP_UP_AT: Final = CREDIT // 2
_MAX_BATCH_SIZE: Final = "com.microsoft:max-message-batch-size"


class SendRelay(Relay):
    """Passes messages on to the owner of the entity's only fragment."""

    def __init__(
        self,
        link: Link,
        path: str,
        channel: "PeerConnection",
        output: Output,
        arrivals: Arrivals,
        properties: Properties,
        enlistment: RelayedEnlistment,
    ) -> None:
        super().__init__(link, path, channel, output)
        self._arrivals = arrivals
        self._enlistment = enlistment
        self._properties = properties
        self._client_properties = without_own(link.properties)
        # Deliveries that wait for the owner's credit, at most the client's credit.
        self._waiting: deque[MessageReceived] = deque()
        self._is_renewing = False
        self._runs = Runs()

    def attach(self, session: AmqpSession) -> Link:
        return session.attach_sender(
            self._name,
            Source(address=self._name),
            Target(address=self.path),
            SENDER_MIXED,
            properties=self._properties,
        )

    def on_peer_attached(self, peer: Link) -> None:
        limit = self._arrivals.max_message_bytes
        self._is_accepted = True
        self._link.accept(
            properties={**self._client_properties, _MAX_BATCH_SIZE: ULong(limit)},
            max_message_size=limit,
            tolerated_message_size=self._arrivals.tolerated_bytes,
        )
        self._link.issue_credit(CREDIT)
        self._output.mark()

    # --- from the client ------------------------------------------------------

    def on_message(self, delivery: MessageReceived) -> None:
        if delivery.state is not None:
            self._enlist(delivery)
        elif delivery.oversize:
            self._reject(delivery, self._arrivals.too_large())
        elif self.peer is None:
            self._reject(delivery, unknown_outcome(self.path))
        elif self._waiting or self.peer.credit <= 0:
            self._waiting.append(delivery)
        else:
            self._pass_on(self.peer, delivery)
        if self._link.credit <= _TOP_UP_AT:
            self._top_up()

    def refuse(self, delivery: MessageReceived, error: ServiceBusError) -> None:
        """Answer a message that is not passed on whatever it is."""
        self._reject(delivery, error)
        if self._link.credit <= _TOP_UP_AT:
            self._top_up()

    def _pass_on(self, peer: Link, delivery: MessageReceived) -> None:
        peer.send(
            delivery.payload,
            delivery.delivery_tag,
            delivery.settled,
            delivery.delivery_id,
            delivery.message_format,
        )
        self._channel.output.mark()

    def _enlist(self, delivery: MessageReceived) -> None:
        """It is a part of a transaction."""
        try:
            answer = self._enlistment.take(delivery)
        except ServiceBusError as error:
            self._reject(delivery, error)
            return
        if not delivery.settled:
            at = delivery.delivery_id
            self._answer(at, at, True, answer)
            self._output.mark()

    def _top_up(self) -> None:
        """Renew the credit of a client that keeps to it, unless the owner is slow."""
        if self._link.credit < 0:
            self._link.detach(
                overrun(f"the link has sent more messages than its credit of {CREDIT}")
            )
            self._output.mark()
        elif self._waiting or not self._channel.output.is_writable:
            # The owner's credit, or the way to it, comes first.
            return
        elif not self._output.is_behind:
            self._renew()
        elif not self._is_renewing:
            self._is_renewing = True
            self._output.renew_later(self._renew)

    def _renew(self) -> None:
        self._is_renewing = False
        self._link.issue_credit(CREDIT)
        self._output.mark()

    # --- from the owner -------------------------------------------------------

    def on_peer_flow(self, peer: Link) -> None:
        while self._waiting and peer.credit > 0:
            self._pass_on(peer, self._waiting.popleft())
        self.on_peer_writable(peer)

    def on_peer_writable(self, peer: Link) -> None:
        if self._is_accepted and 0 <= self._link.credit <= _TOP_UP_AT:
            self._top_up()

    def on_peer_disposition(self, event: DispositionReceived) -> None:
        if not event.peer_is_receiver:
            return
        state = encoded_state(event.state)
        for _, delivery_id in event.session.pop_unsettled(event.first, event.last):
            assert isinstance(delivery_id, int)
            self._runs.add(self._answer, delivery_id, state, True)
        self._runs.flush(self._answer)
        self._output.mark()

    def _answer(self, first: int, last: int, is_settled: bool, state: bytes) -> None:
        self._link.session.send_disposition(True, first, last, is_settled, state)

    def on_peer_lost(self, error: AmqpError) -> None:
        self._refuse_all()
        super().on_peer_lost(error)

    def _refuse_all(self) -> None:
        """Nobody knows what the owner did with what it has; what waits was not sent,
        but the client cannot tell them apart."""
        unknown = encode_rejected(amqp_error(unknown_outcome(self.path)))
        peer = self.peer
        answered = [] if peer is None else list(peer.session.unsettled.values())
        answered += [one.delivery_id for one in self._waiting if not one.settled]
        self._waiting.clear()
        for delivery_id in answered:
            assert isinstance(delivery_id, int)
            self._runs.add(self._answer, delivery_id, unknown, True)
        self._runs.flush(self._answer)

    def _reject(self, delivery: MessageReceived, error: ServiceBusError) -> None:
        if not delivery.settled:
            at = delivery.delivery_id
            self._answer(at, at, True, encode_rejected(amqp_error(error)))
            self._output.mark()


def unknown_outcome(path: str) -> InternalError:
    """The error for a send that the owner did not answer."""
    return InternalError(
        f"The broker that has '{path}' did not answer: whether the message is stored "
        "is not known. Send it again; duplicate detection drops a second one.",
        entity_path=path,
    )
