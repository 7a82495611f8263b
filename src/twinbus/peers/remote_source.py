"""Messages of another broker's fragments, on a link that delivers those of ours, too.

The client's credit is one pool, so the owner *reserves* messages: they are locked, and
the time of the lock does not run. When the client has credit a message is handed out,
and *taken*: a disposition with the state `received`, at which the lock begins. What is
reserved while the client has no credit goes back after a second, at a drain and at the
end. In receive-and-delete mode a message is completed at the owner before it is
delivered.
"""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from twinbus.amqp.errors import AmqpError
from twinbus.amqp.events import DispositionReceived, MessageReceived
from twinbus.amqp.link import Link
from twinbus.amqp.outcomes import ACCEPTED, RELEASED, Accepted
from twinbus.amqp.session import AmqpSession
from twinbus.broker.home import Home
from twinbus.limits import UNSETTLED_PER_SESSION
from twinbus.links.merged_receive_link import MergedReceiveLink
from twinbus.links.output import Output
from twinbus.links.remote_part import RemotePart
from twinbus.peers.peer_properties import Properties
from twinbus.peers.receive_relay import PORTION, RemoteDeliveries
from twinbus.peers.relay import TAKEN, PeerLink, Runs, attach_reserving, named_in

if TYPE_CHECKING:
    from twinbus.peers.peer_connection import PeerConnection


class RemoteSource(RemotePart):
    """The fragments of an entity that one other broker has."""

    def __init__(
        self,
        merged: MergedReceiveLink,
        link: Link,
        path: str,
        output: Output,
        channel: "PeerConnection",
        peek_lock: bool,
        properties: Properties,
        homes: Sequence[Home],
    ) -> None:
        super().__init__()
        self._merged = merged
        self._link = link
        self._output = output
        self._channel = channel
        self._peek_lock = peek_lock
        self._deliveries = RemoteDeliveries(link, output, channel, path, homes)
        self._reserved: deque[MessageReceived] = deque()
        # Receive-and-delete: those that the owner is completing, by its delivery id.
        self._promised: dict[int, MessageReceived] = {}
        self._taken = Runs()
        # The client had no credit at the last tick.
        self._was_idle = False
        self._is_draining = False
        self._path = path
        self._properties = properties
        self._is_lost = False
        self._way = self._attached()

    def _attached(self) -> "_Reservation":
        way = _Reservation(self._channel, self, self._path, self._properties)
        self._channel.attach(way)
        return way

    # --- delivering -----------------------------------------------------------

    def attached(self, peer: Link) -> None:
        self._deliveries.peer = peer
        self.offer_capacity()

    def offer_capacity(self) -> None:
        peer = self._way.peer
        if peer is None or self._deliveries.peer is None:
            # Fragments that are away are not waited for.
            self.is_drained = True
            self._merged.remote_served(self)
            return
        self.is_drained = False
        if self._merged.owed.pay():
            self._output.mark()
        self._hand_out_reserved()
        wanted = self._room() - len(self._reserved)
        wanted = max(0, min(wanted, PORTION))
        if wanted != peer.credit or self._link.drain:
            self._is_draining = self._link.drain
            peer.issue_credit(wanted, self._is_draining)
            self._channel.output.mark()

    def _room(self) -> int:
        """How many messages the client can take now."""
        link = self._link
        if not self._output.is_writable or not link.session.window_open():
            return 0
        room = UNSETTLED_PER_SESSION - len(link.session.unsettled)
        return min(link.credit - self._merged.promised_in_all(), room)

    def on_message(self, message: MessageReceived) -> None:
        self._reserved.append(message)
        self._hand_out_reserved()

    def on_read(self) -> None:
        """All messages that were read at once have come."""
        peer = self._way.peer
        if peer is not None and not self._reserved and peer.credit <= PORTION // 2:
            self.offer_capacity()

    def _hand_out_reserved(self) -> None:
        reserved = self._reserved
        while reserved and self._room() > 0:
            message = reserved.popleft()
            at = message.delivery_id
            if self._peek_lock:
                self._deliveries.hand_out(message)
                self._taken.add(self._tell, at, TAKEN, False)
            else:
                self._promised[at] = message
                self.promised_count += 1
                self._taken.add(self._tell, at, ACCEPTED, False)
        self._taken.flush(self._tell)

    def _tell(self, first: int, last: int, is_settled: bool, state: bytes) -> None:
        peer = self._way.peer
        if peer is not None:
            peer.session.send_disposition(True, first, last, is_settled, state)
            self._channel.output.mark()

    # --- giving back ----------------------------------------------------------

    def tick(self) -> None:
        if self._is_lost:
            self._is_lost = False
            self._way = self._attached()
        is_idle = self._link.credit <= 0
        if is_idle and self._was_idle:
            self._give_back()
        self._was_idle = is_idle

    def _give_back(self) -> None:
        """The client does not take what is reserved."""
        peer = self._way.peer
        if peer is not None and peer.credit > 0:
            peer.issue_credit(0)
            self._channel.output.mark()
        while self._reserved:
            at = self._reserved.popleft().delivery_id
            self._taken.add(self._tell, at, RELEASED, True)
        self._taken.flush(self._tell)

    def answered_drain(self) -> None:
        """The owner has no more messages, if it was asked."""
        if not self._is_draining:
            return
        self._is_draining = False
        self._hand_out_reserved()
        self._give_back()
        self.is_drained = True
        self._merged.remote_served(self)

    # --- settling and ending --------------------------------------------------

    def on_disposition(self, event: DispositionReceived) -> None:
        if self._promised:
            self._keep_promises(event)
        self._deliveries.confirm(event)

    def _keep_promises(self, event: DispositionReceived) -> None:
        """The owner has completed messages, or could not: then they are its again."""
        for at in named_in(event, self._promised):
            message = self._promised.pop(at)
            self.promised_count -= 1
            if isinstance(event.state, Accepted):
                self._merged.owed.send(message.payload)
        self._output.mark()
        self.offer_capacity()

    def lost(self) -> None:
        """The way to the owner has ended. What was reserved is the owner's again."""
        self._is_lost = True
        self._is_draining = False
        self._reserved.clear()
        self._promised.clear()
        self.promised_count = 0
        self._deliveries.lose()
        self.is_drained = True
        self._merged.remote_served(self)

    def close(self) -> None:
        self._give_back()
        self._deliveries.lose()
        self._way.leave()


class _Reservation(PeerLink):
    """The link to the owner."""

    def __init__(
        self,
        channel: "PeerConnection",
        source: RemoteSource,
        path: str,
        properties: Properties,
    ) -> None:
        super().__init__(channel)
        self._source = source
        self._path = path
        self._properties = properties

    def attach(self, session: AmqpSession) -> Link:
        return attach_reserving(session, self._path, self._properties)

    def on_peer_attached(self, peer: Link) -> None:
        self._source.attached(peer)

    def on_peer_message(self, message: MessageReceived) -> None:
        self._source.on_message(message)

    def on_peer_read(self) -> None:
        self._source.on_read()

    def on_peer_disposition(self, event: DispositionReceived) -> None:
        if not event.peer_is_receiver:
            self._source.on_disposition(event)

    def on_peer_flow(self, peer: Link) -> None:
        if not peer.drain:
            self._source.answered_drain()

    def on_peer_lost(self, error: AmqpError) -> None:
        self.leave()
        self._source.lost()
