"""An attach for the next session with messages, at one of several brokers that may have
one. The first that grants a session gets the link; the others are left, and what they
grant meanwhile is free again at once."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from twinbus.amqp.errors import AmqpError
from twinbus.amqp.link import Link
from twinbus.broker.home import Home
from twinbus.links.output import Output
from twinbus.peers.peer_properties import Properties
from twinbus.peers.receive_relay import ReceiveRelay

if TYPE_CHECKING:
    from twinbus.peers.peer_connection import PeerConnection


class Election(Protocol):
    """Takes the first session that is granted."""

    def granted_elsewhere(self, winner: "SessionCandidate") -> None: ...

    def refused_elsewhere(self, candidate: "SessionCandidate") -> None: ...


class SessionCandidate(ReceiveRelay):
    """Waits for a session of one broker."""

    def __init__(
        self,
        link: Link,
        path: str,
        channel: "PeerConnection",
        output: Output,
        properties: Properties,
        homes: Sequence[Home],
        election: Election,
    ) -> None:
        super().__init__(link, path, channel, output, properties, homes)
        # None when it has won.
        self._election: Election | None = election

    def on_peer_attached(self, peer: Link) -> None:
        if self._election is not None:
            election, self._election = self._election, None
            election.granted_elsewhere(self)
        super().on_peer_attached(peer)

    def on_peer_lost(self, error: AmqpError) -> None:
        if self._election is None:
            super().on_peer_lost(error)
        else:
            self.leave()
            self._election.refused_elsewhere(self)
