"""A client's messages on their way to fragments that other brokers have.

There is a link to the owner for each fragment that is used. The bytes are passed on as
they came, and the client's link is told the outcome when the owner has answered. A
message whose outcome is unknown is never sent to another fragment.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from twinbus.amqp.errors import AmqpError
from twinbus.amqp.events import DispositionReceived
from twinbus.amqp.link import Link
from twinbus.amqp.messaging import Source, Target
from twinbus.amqp.outcomes import Accepted, Rejected
from twinbus.amqp.performatives import SENDER_MIXED
from twinbus.amqp.session import AmqpSession
from twinbus.broker.commit_listener import CommitListener
from twinbus.broker.home import Home
from twinbus.errors import FragmentUnavailable, ServiceBusError, from_condition
from twinbus.limits import CREDIT
from twinbus.links.remote_fragments import RemoteFragments
from twinbus.peers.peer_connection import PeerConnection
from twinbus.peers.peer_properties import Properties
from twinbus.peers.peers import Peers
from twinbus.peers.relay import PeerLink
from twinbus.peers.send_relay import unknown_outcome

_WAITING: Final = CREDIT
"""Deliveries that may wait for the credit of one owner."""


class RemoteSend(PeerLink):
    """The link to one fragment."""

    def __init__(
        self, channel: PeerConnection, path: str, index: int, properties: Properties
    ) -> None:
        super().__init__(channel)
        self._path = path
        self._index = index
        self._properties = properties
        # Payload, format, id and listener of what the owner gives no credit for yet.
        self._waiting: deque[tuple[bytes, int, int, CommitListener | None]] = deque()
        # Who waits for the outcome of what the owner has; one for the whole link.
        self._listener: CommitListener | None = None
        self._sent_count = 0
        self.is_lost = False

    def attach(self, session: AmqpSession) -> Link:
        name = f"send {self._path} {self._index}"
        return session.attach_sender(
            name,
            Source(address=name),
            Target(address=self._path),
            SENDER_MIXED,
            properties=self._properties,
        )

    def send(
        self,
        payload: bytes,
        message_format: int,
        delivery_id: int,
        listener: CommitListener | None,
    ) -> None:
        """Raises FragmentUnavailable if too many wait."""
        if self.peer is None or self._waiting or self.peer.credit <= 0:
            if len(self._waiting) >= _WAITING:
                raise FragmentUnavailable.numbered(self._index, self._path)
            self._waiting.append((payload, message_format, delivery_id, listener))
        else:
            self._pass_on(self.peer, payload, message_format, delivery_id, listener)

    def _pass_on(
        self,
        peer: Link,
        payload: bytes,
        message_format: int,
        delivery_id: int,
        listener: CommitListener | None,
    ) -> None:
        self._listener = listener or self._listener
        self._sent_count = (self._sent_count + 1) & 0xFFFFFFFF
        tag = self._sent_count.to_bytes(4, "big")
        peer.send(payload, tag, listener is None, delivery_id, message_format)
        self._channel.output.mark()

    # --- from the owner -------------------------------------------------------

    def on_peer_attached(self, peer: Link) -> None:
        """Credit follows."""

    def on_peer_flow(self, peer: Link) -> None:
        while self._waiting and peer.credit > 0:
            self._pass_on(peer, *self._waiting.popleft())

    def on_peer_disposition(self, event: DispositionReceived) -> None:
        if not event.peer_is_receiver or self._listener is None:
            return
        found = event.session.pop_unsettled(event.first, event.last)
        items = [at for _, at in found if isinstance(at, int)]
        if items and isinstance(event.state, Accepted):
            self._listener.committed(items)
        elif items:
            self._listener.failed(items, self._refusal(event.state))

    def _refusal(self, state: object) -> ServiceBusError:
        error = state.error if isinstance(state, Rejected) else None
        if isinstance(error, AmqpError):
            return from_condition(
                error.condition, error.description, entity_path=self._path
            )
        return unknown_outcome(self._path)

    def on_peer_lost(self, error: AmqpError) -> None:
        self.is_lost = True
        peer = self.peer
        self.leave()
        if peer is not None and self._listener is not None:
            items = [
                at for at in peer.session.unsettled.values() if isinstance(at, int)
            ]
            if items:
                self._listener.failed(items, unknown_outcome(self._path))
        for _, _, delivery_id, listener in self._waiting:
            if listener is not None:
                away = FragmentUnavailable.numbered(self._index, self._path)
                listener.failed([delivery_id], away)
        self._waiting.clear()


class RemoteSends(RemoteFragments):
    """The ways of one client's link to the remote fragments of an entity."""

    def __init__(
        self,
        peers: Peers,
        path: str,
        homes: list[Home],
        properties: Callable[[int, bool], Properties],
    ) -> None:
        """`properties` of the attach for one fragment, or to the broker that keeps its
        messages while nobody serves it."""
        super().__init__()
        self._peers = peers
        self._path = path
        self._homes = homes
        self._properties = properties
        # By the index of the fragment: where it is attached, and whether that keeps
        # messages instead of the owner.
        self._sends: dict[int, tuple[tuple[str, bool], RemoteSend]] = {}
        # Those that were used before; what they have is still answered.
        self._former: list[RemoteSend] = []

    def serves(self, index: int) -> bool:
        return self._peers.address_of(self._homes[index]) is not None

    def diverts(self, index: int) -> bool:
        return self._peers.detour_address_of(self._homes[index]) is not None

    def send(
        self,
        index: int,
        payload: bytes,
        message_format: int,
        delivery_id: int,
        link: CommitListener | None,
    ) -> None:
        way = self._way(index)
        way.send(payload, message_format, delivery_id, link)

    def _way(self, index: int) -> RemoteSend:
        home, keeps = self._homes[index], False
        address = self._peers.address_of(home)
        if address is None:
            address, keeps = self._peers.detour_address_of(home), True
        if address is None:
            raise FragmentUnavailable.numbered(index, self._path)
        known = self._sends.get(index)
        if known is not None and not known[1].is_lost:
            if known[0] == (address, keeps):
                return known[1]
            self._former.append(known[1])
        channel = self._peers.connection(address)
        way = RemoteSend(channel, self._path, index, self._properties(index, keeps))
        self._sends[index] = (address, keeps), way
        channel.attach(way)
        return way

    def close(self) -> None:
        for way in [*self._former, *(way for _, way in self._sends.values())]:
            way.leave()
        self._sends.clear()
        self._former.clear()
