"""A client receives from an entity, or a session, that another broker owns.

The client's credit is given to the owner, a part at a time, so the owner locks a
message when the client can take it. The lock token, which is the delivery tag, stays
the owner's. Settlements are passed on, and confirmed when the owner has confirmed.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from twinbus.amqp.events import DispositionReceived, MessageReceived
from twinbus.amqp.link import Link
from twinbus.amqp.messaging import Source, Target
from twinbus.amqp.outcomes import RELEASED, encode_rejected
from twinbus.amqp.session import AmqpSession
from twinbus.broker.home import Home
from twinbus.broker.message_lock import token_fragment
from twinbus.broker.transaction import Transaction
from twinbus.errors import MessageLockLost, NotAllowed
from twinbus.limits import UNSETTLED_PER_SESSION
from twinbus.links.outcomes import STATE_OF, settled_in, settlement_of
from twinbus.links.output import Output
from twinbus.links.owed_deliveries import OwedDeliveries
from twinbus.links.refusal import amqp_error
from twinbus.links.remote_receiver import RemoteReceiver
from twinbus.links.remote_work import RemoteStep
from twinbus.peers.peer_properties import Properties, without_own
from twinbus.peers.relay import Relay, Runs, encoded_state

if TYPE_CHECKING:
    from twinbus.peers.peer_connection import PeerConnection

SETTLE_STEP: Final = "settle"
"""Of a transaction that another broker commits: path, lock token, outcome."""

_NOTHING: Final = (-1, b"")

PORTION: Final = 250
"""Credit that the owner gets at a time: what may be on its way to a client that has
stopped to read."""


class RemoteDeliveries(RemoteReceiver):
    """The deliveries of a link that came from an owner, by their ids on both sides."""

    def __init__(
        self,
        link: Link,
        output: Output,
        channel: "PeerConnection",
        path: str,
        homes: Sequence[Home],
    ) -> None:
        """`homes`: those of the fragments of the entity, by index."""
        super().__init__()
        self._link = link
        self._output = output
        self._channel = channel
        self.path = path
        self._homes = homes
        # The link to the owner; None while there is none.
        self.peer: Link | None = None
        # The owner's delivery ids and lock tokens of what the client has, by the
        # client's ids.
        self._held: dict[int, tuple[int, bytes]] = {}
        # Those that a transaction settles.
        self._enlisted: dict[int, Transaction] = {}
        # The client's ids of settlements that the owner has not confirmed yet.
        self._unconfirmed: dict[int, int] = {}
        self._runs = Runs()

    def hand_out(self, message: MessageReceived) -> int:
        """Deliver it to the client, which must have credit; returns its id there."""
        delivery_id = self._link.send(
            message.payload,
            message.delivery_tag,
            False,
            self,
            message.message_format,
        )
        self._held[delivery_id] = message.delivery_id, message.delivery_tag
        self._output.mark()
        return delivery_id

    # --- settling -------------------------------------------------------------

    def settle(self, delivery_id: int, state: object, settled: bool) -> None:
        if delivery_id in self._enlisted:
            if not settled:
                refusal = encode_rejected(amqp_error(_is_enlisted(self.path)))
                self._answer(delivery_id, delivery_id, True, refusal)
            return
        at, _ = self._held.pop(delivery_id, _NOTHING)
        if at < 0 or self.peer is None:
            if not settled:
                self._answer(delivery_id, delivery_id, True, _lock_lost())
            return
        if not settled:
            self._unconfirmed[at] = delivery_id
        self._runs.add(self._pass_on, at, encoded_state(state), settled)

    def settled_some(self) -> None:
        self._runs.flush(self._pass_on)

    def _pass_on(self, first: int, last: int, is_settled: bool, state: bytes) -> None:
        if self.peer is not None:
            self.peer.session.send_disposition(True, first, last, is_settled, state)
            self._channel.output.mark()

    def confirm(self, event: DispositionReceived) -> None:
        """The owner has confirmed settlements."""
        count = ((event.last - event.first) & 0xFFFFFFFF) + 1
        unconfirmed = self._unconfirmed
        if count <= len(unconfirmed):
            found = [(event.first + step) & 0xFFFFFFFF for step in range(count)]
        else:
            found = sorted(unconfirmed)
        state = encoded_state(event.state)
        for at in found:
            delivery_id = unconfirmed.pop(at, -1)
            if delivery_id >= 0:
                self._runs.add(self._answer, delivery_id, state, True)
        self._runs.flush(self._answer)
        self._output.mark()

    def _answer(self, first: int, last: int, is_settled: bool, state: bytes) -> None:
        self._link.session.send_disposition(False, first, last, is_settled, state)
        self._output.mark()

    # --- in a transaction -----------------------------------------------------

    def is_in(self, transaction: Transaction, delivery_id: int) -> bool:
        return self._enlisted.get(delivery_id) is transaction

    def settle_in(
        self, transaction: Transaction, delivery_id: int, outcome: object
    ) -> bytes:
        held = self._held.get(delivery_id)
        if held is None:
            raise MessageLockLost(entity_path=self.path)
        if delivery_id in self._enlisted:
            raise _is_enlisted(self.path)
        settlement = settlement_of(outcome, self.path)
        token = held[1]
        step: list[object] = [SETTLE_STEP, self.path, token, encoded_state(outcome)]
        home = self._homes[token_fragment(token)]
        work = RemoteStep(home, self.path, step, settlement.size_bytes())
        work.ends(self, delivery_id, settlement.kind)
        transaction.enlist(work)
        self._enlisted[delivery_id] = transaction
        return settled_in(transaction.txn_id, settlement.kind)

    def committed(self, delivery_id: int, kind: int) -> None:
        self._enlisted.pop(delivery_id, None)
        at, _ = self._held.pop(delivery_id, _NOTHING)
        if at >= 0:
            # The owner has settled it by its token; its link forgets the delivery.
            self._pass_on(at, at, True, STATE_OF[kind])
        session = self._link.session
        if session.unsettled.pop(delivery_id, None) is not None:
            self._answer(delivery_id, delivery_id, True, STATE_OF[kind])

    def let_go(self, delivery_id: int) -> None:
        self._enlisted.pop(delivery_id, None)

    @property
    def has_unconfirmed(self) -> bool:
        return bool(self._unconfirmed)

    def lose(self) -> None:
        """The link to the owner has ended. Locks may still be held there: a client can
        settle by token. What was not confirmed is answered as lost."""
        self.peer = None
        if self._unconfirmed:
            lost = _lock_lost()
            for delivery_id in sorted(self._unconfirmed.values()):
                self._runs.add(self._answer, delivery_id, lost, True)
            self._runs.flush(self._answer)
            self._unconfirmed.clear()
        self.forget()

    def forget(self) -> None:
        """The client's link is gone, or cannot settle any more."""
        unsettled = self._link.session.unsettled
        for delivery_id in self._held:
            if unsettled.get(delivery_id) is self:
                del unsettled[delivery_id]
        self._held.clear()


class ReceiveRelay(Relay):
    """Passes messages of one owner on to one client."""

    def __init__(
        self,
        link: Link,
        path: str,
        channel: "PeerConnection",
        output: Output,
        properties: Properties,
        homes: Sequence[Home],
    ) -> None:
        super().__init__(link, path, channel, output)
        self._properties = properties
        self._source = link.source
        self._settle_modes = link.snd_settle_mode, link.rcv_settle_mode
        self._deliveries = RemoteDeliveries(link, output, channel, path, homes)
        self._owed = OwedDeliveries(link)
        self._is_closing = False

    def attach(self, session: AmqpSession) -> Link:
        assert isinstance(self._source, Source)
        snd_settle_mode, rcv_settle_mode = self._settle_modes
        return session.attach_receiver(
            self._name,
            Source(address=self.path, filter=self._source.filter),
            Target(address=self._name),
            snd_settle_mode,
            rcv_settle_mode,
            self._properties,
        )

    def on_peer_attached(self, peer: Link) -> None:
        self._is_accepted = True
        self._deliveries.peer = peer
        properties = without_own(peer.properties)
        self._link.accept(
            source=self._answered_source(peer), properties=properties or None
        )
        self._output.mark()
        self.offer_capacity()

    def _answered_source(self, peer: Link) -> Source | None:
        """With the session that the owner's answer names. The address is the client's
        own: SDKs compare it before they read the session."""
        asked, answered = self._source, peer.source
        if not isinstance(asked, Source) or not asked.filter:
            return None
        assert isinstance(answered, Source)
        return replace(asked, filter=answered.filter)

    # --- delivering -----------------------------------------------------------

    def offer_capacity(self) -> None:
        """Credit, window or socket allow more messages than before."""
        peer, link = self.peer, self._link
        if peer is None or not self._is_accepted:
            return
        if self._owed.pay():
            self._output.mark()
        room = UNSETTLED_PER_SESSION - len(link.session.unsettled)
        is_open = self._output.is_writable and link.session.window_open()
        wanted = min(link.credit, PORTION, max(room, 0)) if is_open else 0
        is_drained = link.drain and is_open
        if wanted != peer.credit or is_drained != peer.drain:
            peer.issue_credit(wanted, is_drained)
            self._channel.output.mark()

    def on_peer_message(self, message: MessageReceived) -> None:
        if message.settled:
            self._owed.send(message.payload, message.message_format)
            self._output.mark()
        elif self._link.credit <= 0:
            # The client has withdrawn its credit meanwhile.
            self._give_back(message)
        else:
            self._deliveries.hand_out(message)

    def on_peer_read(self) -> None:
        peer = self.peer
        if peer is not None and peer.credit <= PORTION // 2 < self._link.credit:
            self.offer_capacity()

    def _give_back(self, message: MessageReceived) -> None:
        at = message.delivery_id
        message.link.session.send_disposition(True, at, at, True, RELEASED)
        self._channel.output.mark()

    def on_peer_flow(self, peer: Link) -> None:
        """The owner has answered a drain: it has no more messages. If it got a part of
        the credit only, it has used that up, and gets the next."""
        link = self._link
        if not link.drain or peer.drain:
            return
        link.drained()
        self._output.mark()

    # --- settling and ending --------------------------------------------------

    def on_peer_disposition(self, event: DispositionReceived) -> None:
        if not event.peer_is_receiver:
            self._deliveries.confirm(event)
            if self._is_closing and not self._deliveries.has_unconfirmed:
                self.leave()

    def tick(self) -> None:
        """The client may have room for more unsettled deliveries."""
        if self._link.credit > 0:
            self.offer_capacity()

    def forget_deliveries(self) -> None:
        """The client detached the link: it settles by token from now on."""
        self._deliveries.forget()

    def close(self) -> None:
        """The client's link is gone; its last settlements are still confirmed."""
        peer = self.peer
        if peer is None or not self._deliveries.has_unconfirmed:
            self.leave()
            return
        self._is_closing = True
        self._deliveries.forget()
        peer.context = None
        peer.detach()
        self._channel.output.mark()

    def leave(self) -> None:
        self._deliveries.lose()
        super().leave()


def _is_enlisted(path: str) -> NotAllowed:
    return NotAllowed(
        f"The message of '{path}' is settled in a transaction that is not discharged "
        "yet. Commit it or roll it back, and settle again.",
        entity_path=path,
    )


def _lock_lost() -> bytes:
    return encode_rejected(amqp_error(MessageLockLost()))
