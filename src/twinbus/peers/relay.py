"""Two links as one: that of a client here, and one to the broker that owns the entity.

The owner serves the second link as it serves its own clients. What comes in on one is
passed on to the other: bytes of messages unread, outcomes in ranges. The client's
attach is answered when the owner has answered. If the way to the owner ends, the
client's link is detached with a retryable error: it attaches again, and the owner is
looked up anew.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from twinbus.amqp.composite import encode_composite
from twinbus.amqp.errors import AmqpError
from twinbus.amqp.events import DispositionReceived, MessageReceived
from twinbus.amqp.link import Link
from twinbus.amqp.messaging import Source, Target
from twinbus.amqp.outcomes import (
    ACCEPTED,
    ACCEPTED_OUTCOME,
    RELEASED,
    Accepted,
    Modified,
    Received,
    Rejected,
    Released,
)
from twinbus.amqp.performatives import SENDER_UNSETTLED
from twinbus.amqp.session import AmqpSession
from twinbus.errors import DetachForced, ServiceBusError
from twinbus.links.output import Output
from twinbus.links.refusal import amqp_error
from twinbus.peers.peer_properties import Properties

if TYPE_CHECKING:
    from twinbus.peers.peer_connection import PeerConnection

_MASK: Final = 0xFFFFFFFF

TAKEN: Final = encode_composite(Received(section_number=0, section_offset=0))
"""The state of a reserved message that is handed out: its lock begins."""


class PeerLink:
    """A link to the owner of fragments. Its AMQP session has no other link."""

    def __init__(self, channel: "PeerConnection") -> None:
        self._channel = channel
        # None until the connection to the owner is open, and after the end.
        self.peer: Link | None = None
        self._is_over = False

    # --- from the connection to the owner -------------------------------------

    def begin(self, session: AmqpSession) -> None:
        """The connection is open: attach."""
        if self._is_over:
            session.end()
            return
        session.context = self
        self.peer = self.attach(session)
        self.peer.context = self

    @abstractmethod
    def attach(self, session: AmqpSession) -> Link: ...

    @abstractmethod
    def on_peer_attached(self, peer: Link) -> None:
        """The owner has accepted the link."""

    @abstractmethod
    def on_peer_lost(self, error: AmqpError) -> None:
        """The owner has refused or ended the link, or the connection has ended."""

    def on_peer_message(self, message: MessageReceived) -> None:
        """Only links on which we receive get any."""

    def on_peer_disposition(self, event: DispositionReceived) -> None:
        """The owner has decided about deliveries."""

    def on_peer_read(self) -> None:
        """All messages that were read at once were passed on. Only now the credit says
        what the owner may still send: the engine counts a message when it is read."""

    def on_peer_flow(self, peer: Link) -> None:
        """The owner has given credit, or has answered a drain."""

    def on_peer_writable(self, peer: Link) -> None:
        """The connection takes more bytes again."""

    def leave(self) -> None:
        """Detach from the owner; nothing is heard from it any more."""
        self._is_over = True
        peer, self.peer = self.peer, None
        if peer is not None:
            peer.context = peer.session.context = None
            peer.detach()
            peer.session.end()
        self._channel.left(self)


class Relay(PeerLink):
    """A client's link that is passed on to the owner."""

    def __init__(
        self, link: Link, path: str, channel: "PeerConnection", output: Output
    ) -> None:
        super().__init__(channel)
        self._link = link
        # The path that authorization is checked for.
        self.path = path
        self._output = output
        # The attach as it came: the engine forgets it with the answer.
        self._name = link.name
        self._is_accepted = False

    def start(self) -> None:
        """Ask the owner."""
        self._channel.attach(self)

    @property
    def amqp_session(self) -> AmqpSession:
        return self._link.session

    def on_peer_lost(self, error: AmqpError) -> None:
        self.leave()
        self.end_client(error)

    def end_client(self, error: AmqpError) -> None:
        link = self._link
        if self._is_accepted:
            link.detach(error)
        else:
            link.refuse(error)
        self._output.mark()

    def detach(self, error: ServiceBusError) -> None:
        """The entity was deleted or disabled, or the client has lost its right."""
        self.leave()
        self.end_client(amqp_error(error))

    def close(self) -> None:
        """The client's link is gone."""
        self.leave()


class Runs:
    """Passes on outcomes of deliveries: one frame for each run of ids."""

    def __init__(self) -> None:
        self._first = self._last = -1
        self._state = b""
        self._is_settled = False

    def add(
        self,
        send: Callable[[int, int, bool, bytes], None],
        delivery_id: int,
        state: bytes,
        is_settled: bool,
    ) -> None:
        """`send` gets the run before, if this one does not continue it."""
        if (
            self._first >= 0
            and delivery_id == (self._last + 1) & _MASK
            and state == self._state
            and is_settled == self._is_settled
        ):
            self._last = delivery_id
            return
        self.flush(send)
        self._first = self._last = delivery_id
        self._state, self._is_settled = state, is_settled

    def flush(self, send: Callable[[int, int, bool, bytes], None]) -> None:
        if self._first >= 0:
            send(self._first, self._last, self._is_settled, self._state)
            self._first = -1


def named_in(event: DispositionReceived, delivery_ids: Iterable[int]) -> list[int]:
    """Those of the ids that the disposition is about."""
    count = (event.last - event.first) & _MASK
    return [at for at in delivery_ids if (at - event.first) & _MASK <= count]


def attach_reserving(session: AmqpSession, path: str, properties: Properties) -> Link:
    """A link on which the owner reserves messages. `properties` say so."""
    name = f"receive {path}"
    return session.attach_receiver(
        *(name, Source(address=path), Target(address=name)),
        *(SENDER_UNSETTLED, 1, properties),
    )


def encoded_state(state: object) -> bytes:
    """An outcome as it goes on; anything else releases the message."""
    if state is ACCEPTED_OUTCOME:
        return ACCEPTED
    if isinstance(state, Accepted | Rejected | Released | Modified):
        return encode_composite(state)
    return RELEASED


def store_moved(path: str) -> DetachForced:
    """The error for links to an entity that another broker serves now."""
    return DetachForced(
        f"'{path}' is served by another broker of this bus now. Attach again: you are "
        "led there.",
        entity_path=path,
    )
