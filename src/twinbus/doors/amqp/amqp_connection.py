"""One AMQP connection: connects a socket with the engine, the links and the nodes.

Received bytes go into the engine. Its events go to links and nodes. The bytes that it
wants to send are collected and written at once. The engine has the rules of the
protocol, the domain those of messaging. Here are the deadlines: a peer must open the
connection and show a key in time.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, cast
from weakref import WeakValueDictionary

from twinbus.amqp.connection import Connection, Role
from twinbus.amqp.errors import AmqpError, DecodeError
from twinbus.amqp.events import (
    ConnectionClosed,
    ConnectionOpened,
    Event,
    LinkAttached,
    LinkDetached,
    LinkFlow,
    MessageReceived,
    SaslInitReceived,
    SessionEnded,
    SessionWindowOpened,
)
from twinbus.amqp.link import Link
from twinbus.amqp.sasl import parse_plain
from twinbus.amqp.session import AmqpSession
from twinbus.auth.claims import Grant
from twinbus.auth.grants import Grants, Right
from twinbus.auth.policy import Policy
from twinbus.broker.home import Home
from twinbus.broker.log_book import actor_text
from twinbus.doors.amqp.asked_for import AskedFor
from twinbus.doors.amqp.attach import on_attach
from twinbus.doors.amqp.host import Host
from twinbus.doors.amqp.open_properties import open_properties, purpose_of
from twinbus.doors.amqp.peer_attach import ASKING_FOR
from twinbus.doors.amqp.request_links import (
    Node,
    RequestLink,
    ResponseLink,
    Unanswered,
)
from twinbus.doors.amqp.session_attach import SessionAttach
from twinbus.doors.arrived_at import arrived_at
from twinbus.doors.memory_share import MemoryShare
from twinbus.doors.visitor import Visitor
from twinbus.entities.entity import EntityLink
from twinbus.entities.namespace import Namespace
from twinbus.errors import (
    AuthenticationFailed,
    ConnectionForced,
    QuotaExceeded,
    ServiceBusError,
)
from twinbus.limits import (
    ANSWERS_BYTES,
    FRAME_BYTES,
    IDLE_TIMEOUT_MS,
    LINKS_BYTES,
    LINKS_PER_CONNECTION,
    MANAGEMENT_REQUEST_BYTES,
    PARTIAL_DELIVERIES,
    SESSIONS_PER_CONNECTION,
    STRANGER_BYTES,
    STRANGER_UNREAD_BYTES,
    STRANGER_WRITE_BUFFER_BYTES,
    UNREAD_BYTES,
    WRITE_BUFFER_BYTES,
)
from twinbus.links.coordinator import Coordinator
from twinbus.links.coordinator_link import CoordinatorLink
from twinbus.links.deliveries import apply_deliveries
from twinbus.links.merged_receive_link import MergedReceiveLink
from twinbus.links.output import Output
from twinbus.links.receive_link import (
    ReceiveLink,
    forget_deliveries,
    waiting_links,
)
from twinbus.links.refusal import amqp_error
from twinbus.links.send_link import SendLink
from twinbus.peers.receive_relay import ReceiveRelay
from twinbus.peers.relay import Relay
from twinbus.peers.send_relay import SendRelay

_log = logging.getLogger(__name__)

_CLOSING_MS: Final = 5_000
"""How long a peer may take to answer a close."""

_FULL_READ_BYTES: Final = 128 * 1024
"""A read of this size means that more is waiting: a client that keeps to its credit
mostly has less under way."""


_LARGE_READ_BYTES: Final = 16 * 1024
"""A read of this size or more waits for its turn; a smaller one is taken at once."""

_FRAMES_AT_A_TIME: Final = 64
"""Frames that are processed between two looks at the clock."""

_SHOWN_LINKS: Final = 20

# On which a client receives, from one fragment or from several.
ReceivingLink = ReceiveLink | MergedReceiveLink
QueueLink = SendLink | ReceiveLink | MergedReceiveLink | SessionAttach | Relay
"""A link to an entity, an attach that waits for a session, or a link that is passed on
to another broker."""


class AmqpConnection(asyncio.Protocol):
    """The asyncio protocol of one client's connection."""

    # For speed: each read uses some of these, and without slots Python hashes the names
    # of attributes if an object has more than thirty.
    __slots__ = (
        *(
            "_host",
            "_asked",
            "namespace",
            "clock",
            "extensions",
            "turns",
            "grants",
            "output",
        ),
        "peers",
        *("coordinator", "_engine", "_transport", "unanswered", "requests"),
        *("_unsent_bytes", "_held_bytes", "_engine_bytes", "_held_limit"),
        *("_unread_limit", "_nodes", "_responses", "_links", "_actors"),
        *("_is_stranger", "_opened", "_purpose"),
        *("_started_at", "_handshake_ms", "_is_waiting", "_is_deaf", "_is_held_back"),
        *("_is_lost", "_is_ended", "_abort_at", "visitor", "__weakref__"),
    )

    # The peer is a broker of the same cluster, and not a client.
    is_for_peers = False
    # How many links, and AMQP sessions, it may have.
    link_limit = LINKS_PER_CONNECTION
    session_limit = SESSIONS_PER_CONNECTION

    def __init__(self, host: Host) -> None:
        self._host = host
        # The default one, until the client has said which it means.
        self.namespace = host.namespaces.default
        self._asked = AskedFor(host.namespaces)
        self.clock = host.clock
        self.extensions = host.extensions
        self.turns = host.turns
        self.peers = host.peers
        self.grants = Grants()
        self.output = Output(host.outputs, self.flush)
        # The transactions of this connection.
        self.coordinator = Coordinator(host.transaction_limits, host.entropy)
        self._engine = Connection(
            Role.SERVER,
            host.container_id,
            max_frame_size=FRAME_BYTES,
            channel_max=self.session_limit - 1,
            handle_max=LINKS_PER_CONNECTION - 1,
            idle_timeout_ms=IDLE_TIMEOUT_MS,
            properties=open_properties(self.extensions, host.broker_name),
            link_limit=self.link_limit,
            limit_bytes=STRANGER_BYTES,
            frames_at_a_time=_FRAMES_AT_A_TIME,
        )
        self._transport: asyncio.Transport | None = None
        # Counts the wrong keys of the peer.
        self.visitor = Visitor()
        # Requests and answers under way.
        self.unanswered = Unanswered(self._count_held)
        # Written and not sent yet; 0 if it is only a little.
        self._unsent_bytes = 0
        # Bytes held for the peer, as its share counts them, and the limit. They include
        # a read whose frames wait for their turn.
        self._held_bytes = 0
        self._engine_bytes = 0
        self._held_limit = 2 * STRANGER_BYTES
        self._unread_limit = STRANGER_UNREAD_BYTES
        # Nodes this connection is attached to, by address. A node lives as long as its
        # links: otherwise a client could fill the memory by attaching to many of them.
        self._nodes: WeakValueDictionary[str, Node] = WeakValueDictionary()
        # Tasks of requests that are not answered yet.
        self.requests: set[asyncio.Task[None]] = set()
        # Response links by AMQP session.
        self._responses: dict[AmqpSession, list[ResponseLink]] = {}
        # Links to entities, each with the entity's own set of links.
        self._links: dict[QueueLink, set[EntityLink]] = {}
        # Its numbers in operation logs, by what it does.
        self._actors: dict[tuple[Home, str], int] = {}
        # True until the peer has shown a key.
        self._is_stranger = True
        self._opened = False
        # What the client is for, if that is said in the operation log.
        self._purpose = ""
        self._started_at = 0
        self._handshake_ms = host.handshake_ms
        # Reasons not to read: earlier bytes wait for their turn; the peer does not read
        # answers; the process holds too much data.
        self._is_waiting = False
        self._is_deaf = False
        self._is_held_back = False
        # The transport is gone. Ended: all received bytes are processed, too.
        self._is_lost = False
        self._is_ended = False
        # When the transport is aborted if the peer does not close; 0: not closing.
        self._abort_at = 0

    # --- asyncio --------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not of asyncio's class.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=STRANGER_WRITE_BUFFER_BYTES)
        peername = transport.get_extra_info("peername")
        self.visitor = Visitor(self._host.visits, peername)
        self._asked.arrived(arrived_at(transport))
        self._started_at = self.clock.monotonic()
        self._host.joined(self)

    def data_received(self, data: bytes) -> None:
        engine, size = self._engine, len(data)
        if size >= _LARGE_READ_BYTES and self.turns.is_over():
            engine.receive_later(data, self.clock.monotonic())
        else:
            self._take(engine.receive_data(data, self.clock.monotonic()))
        if engine.has_more:
            self._go_on()
            return
        self.output.mark()
        self._host.outputs.flush()
        if engine.held_bytes() != self._engine_bytes:
            self._count_held()
        if size >= _FULL_READ_BYTES:
            self._let_others_read()

    def _take(self, events: list[Event]) -> None:
        is_behind = self.output.is_behind = self._engine.has_more
        self._on_events(events)
        if not is_behind:
            self.output.caught_up()

    def _go_on(self) -> None:
        """Process received bytes, one turn at a time."""
        engine, turns = self._engine, self.turns
        while engine.has_more and not self._must_wait() and not turns.is_over():
            self._take(engine.go_on())
        if engine.has_more and not self._must_wait():
            turns.wait(self._go_on)
        if self._is_waiting is not engine.has_more:
            self._is_waiting = engine.has_more
            self._read_or_not()
        self.output.mark()
        self._host.outputs.flush()
        if engine.held_bytes() != self._engine_bytes:
            self._count_held()
        if self._is_lost and not engine.has_more:
            self._end()

    def _must_wait(self) -> bool:
        """True while reading is paused: then earlier bytes are not processed either."""
        return self._is_held_back or (self._is_deaf and not self._is_lost)

    def _let_others_read(self) -> None:
        """Pause once, because libuv reads one socket dozens of times before others."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._read_or_not)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self.output.is_writable = False
        self._is_lost = True
        # Received bytes are still processed.
        if self._engine.has_more:
            self.turns.wait(self._go_on)
        else:
            self._end()

    def _end(self) -> None:
        if self._is_ended:
            return
        self._is_ended = True
        for link in list(self._links):
            self._detached(link)
        self.coordinator.roll_back_all()
        for (home, _), actor in self._actors.items():
            home.dismiss(actor)
        self._actors.clear()
        self._engine.eof()
        self._share().hold(self, 0)
        self._host.left(self)

    def pause_writing(self) -> None:
        self.output.is_writable = False

    def resume_writing(self) -> None:
        self.output.is_writable = True
        self._is_deaf = False
        self._count_unsent()
        self._read_again()
        self._offer_capacity()
        for responses in list(self._responses.values()):
            for response_link in responses:
                response_link.send_waiting()
        self._host.outputs.flush()

    # --- writing --------------------------------------------------------------

    def flush(self) -> None:
        data = self._engine.data_to_send()
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if data:
            transport.write(data)
            self._listen_to_readers(transport)
        if self._engine.closed:
            transport.close()

    def _listen_to_readers(self, transport: asyncio.Transport) -> None:
        """Stop reading from a peer that does not read its answers.

        The limit is higher than the one that stops deliveries: a client may write for
        a while before it reads again.
        """
        size = transport.get_write_buffer_size()
        if size >= STRANGER_WRITE_BUFFER_BYTES or self._unsent_bytes:
            self._count_unsent()
        if size > self._unread_limit and not self._is_deaf:
            self._is_deaf = True
            self._read_or_not()

    # --- memory ---------------------------------------------------------------

    def _share(self) -> MemoryShare:
        shares = self._host
        return shares.strangers_held if self._is_stranger else shares.clients_held

    def _count_unsent(self) -> None:
        transport = self._transport
        size = 0 if transport is None else transport.get_write_buffer_size()
        self._unsent_bytes = size if size >= STRANGER_WRITE_BUFFER_BYTES else 0
        self._count_held()

    def _count_held(self) -> None:
        """Update the bytes that are held for the peer; cut the peer off above its
        limit."""
        if self._transport is None:
            return
        self._engine_bytes = self._engine.held_bytes()
        held = self._engine_bytes + self.unanswered.size_bytes + self._unsent_bytes
        if self._is_stranger:
            held += self.coordinator.held_bytes()
        if held == self._held_bytes:
            return
        self._held_bytes = held
        if held > self._held_limit and not self._abort_at:
            self.cut(self._holds_too_much(held))
        self._share().hold(self, held)

    def _holds_too_much(self, held: int) -> QuotaExceeded:
        who = " that has shown no key" if self._is_stranger else ""
        return QuotaExceeded(
            f"Unfinished requests and unread answers of the connection take {held} "
            f"bytes; one{who} may have {self._held_limit}. Finish the requests, and "
            "read the answers."
        )

    def _recognized(self) -> None:
        """The peer has shown a key: give it the limits of clients."""
        self._share().hold(self, 0)
        self._is_stranger = False
        self._held_bytes = 0
        largest = self.namespace.largest_message_bytes
        partial = PARTIAL_DELIVERIES * largest + MANAGEMENT_REQUEST_BYTES
        self._engine.limit_held(partial + LINKS_BYTES)
        self._held_limit = partial + LINKS_BYTES + UNREAD_BYTES + ANSWERS_BYTES
        self._unread_limit = UNREAD_BYTES
        if self._transport is not None:
            self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self._host.recognized(self)
        self._count_held()

    def pause_reading(self) -> None:
        """The process holds as much data without a commit as it may."""
        self._is_held_back = True
        self._read_or_not()

    def resume_reading(self) -> None:
        self._is_held_back = False
        self._read_again()

    def _read_again(self) -> None:
        if self._engine.has_more and not self._must_wait():
            self.turns.wait(self._go_on)
        self._read_or_not()

    def _read_or_not(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._is_deaf or self._is_held_back or self._is_waiting:
            transport.pause_reading()
        else:
            transport.resume_reading()

    # --- events ---------------------------------------------------------------

    def _on_events(self, events: list[Event]) -> None:
        now = self.clock.now()
        coordinator, output = self.coordinator, self.output
        at = apply_deliveries(events, 0, coordinator, output, now)
        while at < len(events):
            self._on_event(events[at])
            at = apply_deliveries(events, at + 1, coordinator, output, now)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, LinkFlow):
            self._on_flow(event.link)
        elif isinstance(event, MessageReceived):
            if isinstance(event.link.context, RequestLink):
                event.link.context.on_message(event, self.clock.now())
            elif isinstance(event.link.context, SendRelay):
                event.link.context.on_message(event)
            elif isinstance(event.link.context, CoordinatorLink):
                event.link.context.on_message(event, self.clock.now())
        elif isinstance(event, LinkAttached):
            if not self._abort_at:
                on_attach(self, event.link)
        elif isinstance(event, LinkDetached):
            if isinstance(event.link.context, ReceivingLink | ReceiveRelay):
                event.link.context.forget_deliveries()
            self._forget(event.link)
        elif isinstance(event, SessionWindowOpened):
            waiting_links(event.session).go_on(event.session)
            self.unanswered.window_opened(event.session)
            self._offer_to_relays(event.session)
        elif isinstance(event, SessionEnded):
            for link in event.session.links.values():
                self._forget(link)
            self._responses.pop(event.session, None)
        elif isinstance(event, SaslInitReceived):
            self._on_sasl_init(event)
        elif isinstance(event, ConnectionOpened):
            self._opened = True
            self._on_opened(event)
        elif isinstance(event, ConnectionClosed):
            # The transport does not close while the peer does not read: set a deadline.
            self._abort_at = self._abort_at or self.clock.monotonic() + _CLOSING_MS
            if event.error is not None:
                _log.info("%s closed: %s", self.peer_name, event.error)

    def _on_sasl_init(self, event: SaslInitReceived) -> None:
        """PLAIN shows a key. With other mechanisms a token comes later, to `$cbs`."""
        ok = not self.is_for_peers
        shows_key = event.mechanism == "PLAIN"
        try:
            self._choose(event.hostname, is_last=shows_key)
        except ServiceBusError as error:
            _log.info("%s was refused: %s", self.peer_name, error.text)
            ok = shows_key = False
        if shows_key:
            ok = True
            try:
                self._prove(*parse_plain(event.initial_response))
            except (ServiceBusError, DecodeError):
                _log.info("%s was refused: wrong key name or key", self.peer_name)
                ok = False
        self._on_events(self._engine.sasl_outcome(ok))

    def _on_opened(self, event: ConnectionOpened) -> None:
        _log.debug("%s opened as %s", self.peer_name, event.container_id)
        self._purpose = purpose_of(event.properties)
        try:
            self._choose(event.hostname, is_last=True)
        except ServiceBusError as error:
            _log.info("%s was refused: %s", self.peer_name, error.text)
            self.close(error, self.clock.monotonic())

    def _choose(self, host: str | None, *, is_last: bool) -> None:
        """The client asks for this host. Raises NotAllowed."""
        self._enter(self._asked.heard(host, is_last=is_last))

    def _enter(self, namespace: Namespace) -> None:
        """The client means this namespace."""
        if namespace is self.namespace:
            return
        self.namespace = namespace
        self.visitor.namespace = namespace.name
        self.peers = self._host.peers.within(namespace.name)

    def _prove(self, key_name: str, key: str) -> None:
        """Raises AuthenticationFailed, ServerBusy, ArgumentError."""
        self.visitor.check(key_name)
        try:
            grant = self._policy().grant_by_key(key_name, key)
        except AuthenticationFailed:
            self.visitor.failed(key_name, self._policy())
            raise
        self.visitor.proved(key_name)
        self.proved(grant)

    def _policy(self) -> Policy:
        """The rules whose keys are accepted."""
        return self.namespace.policy

    def _on_flow(self, link: Link) -> None:
        context = link.context
        if isinstance(context, ReceivingLink | ReceiveRelay):
            context.offer_capacity()
        elif isinstance(context, ResponseLink):
            context.send_waiting()

    def _forget(self, link: Link) -> None:
        context = link.context
        link.context = None
        if isinstance(context, QueueLink):
            self._detached(context)
        elif isinstance(context, ResponseLink):
            self.responses(link.session).remove(context)
            context.close()
        elif isinstance(context, CoordinatorLink):
            context.close()

    def _detached(self, link: QueueLink) -> None:
        known_to = self._links.pop(link, None)
        self.grants.let_go(link)
        if known_to is not None:
            known_to.discard(link)
        link.close()

    def _offer_capacity(self) -> None:
        for link in list(self._links):
            if isinstance(link, ReceivingLink | ReceiveRelay):
                link.offer_capacity()

    def _offer_to_relays(self, session: AmqpSession) -> None:
        for link in list(self._links):
            if isinstance(link, ReceiveRelay) and link.amqp_session is session:
                link.offer_capacity()

    # --- for attach -----------------------------------------------------------

    def attached(
        self, link: QueueLink, known_to: set[EntityLink], *rights: Right
    ) -> None:
        """Add a link to an entity's set of links. The link ends when one of these
        rights ends."""
        self._links[link] = known_to
        known_to.add(link)
        self.grants.hold(link, rights)

    def replaced(self, attach: SessionAttach, link: ReceiveLink | ReceiveRelay) -> None:
        """Replace an attach that waited for a session by its link."""
        known_to = self._links.pop(attach)
        known_to.discard(attach)
        self._links[link] = known_to
        known_to.add(link)
        self.grants.pass_on(attach, link)

    def node(self, address: str, make: Callable[["AmqpConnection"], Node]) -> Node:
        """This connection's node of that address, created if needed."""
        node = self._nodes.get(address)
        if node is None:
            node = self._nodes[address] = make(self)
        return node

    def largest_message_bytes(self) -> int:
        """In any namespace."""
        return self._host.namespaces.largest_message_bytes()

    def responses(self, session: AmqpSession) -> list[ResponseLink]:
        return self._responses.setdefault(session, [])

    def introduce(self, home: Home, what: str) -> int:
        """The number of this client in the operation log of a store. `what` begins with
        a verb and a path, or is the path of a node."""
        number = self._actors.get((home, what))
        if number is None:
            number = home.introduce(self._description(what))
            self._actors[home, what] = number
        return number

    def _description(self, what: str) -> str:
        what, _, asking = what.partition(ASKING_FOR)
        if asking:
            # Another broker asks for its client, whose address and key it names.
            client, _, key_name = asking.partition(" ")
            return actor_text(client, what, key_name)
        path = what.removesuffix("/$management").rpartition(" ")[2]
        key_name = self.grants.key_name(path, self.clock.now())
        purpose = f"{self._purpose} {what}" if self._purpose else what
        return actor_text(self.peer_name, purpose, key_name)

    @property
    def peer_name(self) -> str:
        """Its address, for the operation log."""
        return self.visitor.name

    # --- rights ---------------------------------------------------------------

    def proved(self, grant: Grant) -> None:
        """The peer has shown a key. Raises ArgumentError if it has too many grants."""
        self._lose(self.grants.put(grant, self.clock.now()))
        if self._is_stranger:
            self._recognized()

    def _lose(self, lost: list[Right]) -> None:
        """Detach the links that held these rights."""
        receivers: dict[AmqpSession, set[ReceiveLink]] = {}
        for right in lost:
            link = cast(QueueLink, right.holder)
            # A link may lose two rights at once.
            if link not in self._links:
                continue
            self._detached(link)
            link.detach(right.missing())
            if isinstance(link, ReceivingLink):
                receivers.setdefault(link.amqp_session, set()).update(link.receivers())
        for session, links in receivers.items():
            forget_deliveries(session, links)
        self.output.mark()

    # --- time -----------------------------------------------------------------

    def tick(self, now: int, monotonic: int) -> None:
        """Send heartbeats, and check the deadlines of the peer."""
        self._on_events(self._engine.tick(monotonic))
        if self._abort_at:
            if self._abort_at <= monotonic and self._transport is not None:
                self._transport.abort()
            return
        has_right = self._opened and self.grants
        if not has_right and monotonic - self._started_at > self._handshake_ms:
            self._give_up(monotonic)
        elif self.namespace.is_removed:
            gone = f"The namespace '{self.namespace.name}' was removed."
            self.close(ConnectionForced(gone), monotonic)
        else:
            self._lose(self.grants.tick(self._policy(), now))
            self.coordinator.tick(now)
            swept: set[AmqpSession] = set()
            for link in list(self._links):
                if isinstance(link, ReceivingLink):
                    link.tick(swept)
                elif isinstance(link, ReceiveRelay):
                    link.tick()
        self.output.mark()

    def _give_up(self, monotonic: int) -> None:
        missing = "no token was put" if self._opened else "it was not opened"
        text = f"{missing} within {self._handshake_ms // 1000} seconds"
        self.close(ConnectionForced(f"The connection is closed: {text}."), monotonic)

    def close(self, error: ServiceBusError | None, monotonic: int) -> None:
        """Close the connection; abort it later if the peer does not answer."""
        told: AmqpError | None = None if error is None else amqp_error(error)
        self._abort_at = monotonic + _CLOSING_MS
        if self._opened:
            self._engine.close(told)
            self.output.mark()
        elif self._transport is not None:
            self._transport.close()

    def described(self) -> str:
        paths = ", ".join(sorted({link.path for link in self._links})[:_SHOWN_LINKS])
        who = "no key" if self._is_stranger else "a key"
        return (
            f"AMQP {self.peer_name}, {who}, {len(self.requests)} requests, "
            f"{self._held_bytes} bytes held, {len(self._links)} links: {paths}"
        )

    def cut(self, error: ServiceBusError) -> None:
        """Close at once; send the error if the peer reads."""
        self.close(error, self.clock.monotonic())
        self.flush()
        transport = self._transport
        if transport is not None and transport.get_write_buffer_size() == 0:
            transport.close()
        else:
            self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
