"""Detects the protocol of a new connection by its first byte.

    0x16             TLS; one of the others is inside
    G P D H O T C    the verb of an HTTP request, which may ask for a WebSocket with
                     AMQP inside
    anything else    AMQP, which answers a wrong header with its own

The listener for other brokers expects TLS, or 0x01: they greet each other
(`peers/greeting.py`).

The first bytes are all different, so one is enough. It is peeked from the socket, so
that the protocol that takes over reads the stream from its start. Inside TLS that is
not possible, and the first bytes are handed over. A client that sends nothing in time
is disconnected.
"""

import asyncio
import logging
import secrets
import socket
import ssl
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from twinbus.doors.amqp.amqp_connection import AmqpConnection
from twinbus.doors.amqp.faulty_connection import FaultyAmqpConnection
from twinbus.doors.http.faulty_connection import FaultyHttpConnection
from twinbus.doors.http.http_connection import HttpConnection
from twinbus.doors.websocket.websocket_door import WebSocketDoor
from twinbus.errors import ServiceBusError
from twinbus.peers.greeting import FIRST as GREETING
from twinbus.peers.greeting import HELLO_BYTES, NONCE_BYTES, PROOF_BYTES, Greeting

if TYPE_CHECKING:
    from twinbus.process.server import Server

_log = logging.getLogger(__name__)

_TLS_HANDSHAKE: Final = 0x16
_FIRST_LETTERS_OF_VERBS: Final = b"GPDHOTC"


def _protocol(first: int, server: "Server") -> AmqpConnection | HttpConnection:
    """The protocol for a connection that begins with this byte."""
    is_http, faults = first in _FIRST_LETTERS_OF_VERBS, server.faults
    if faults is not None:
        if is_http:
            namespace_of = server.http.gateway.name_of
            return FaultyHttpConnection(server, faults, server.websockets, namespace_of)
        return FaultyAmqpConnection(server, faults)
    if is_http:
        return HttpConnection(server, upgrades=server.websockets)
    return AmqpConnection(server)


def websocket_door(server: "Server", origins: Collection[str]) -> WebSocketDoor:
    """Where connections over WebSockets become AMQP connections of the server."""

    def make() -> AmqpConnection:
        if server.faults is None:
            return AmqpConnection(server)
        return FaultyAmqpConnection(server, server.faults, is_admitted=True)

    return WebSocketDoor(make, server.turns, origins)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerDoors:
    """What serves connections of other brokers, by protocol."""

    amqp: Callable[[], AmqpConnection]
    http: Callable[[], HttpConnection]
    # None: brokers of one machine, which greet each other instead. Without one or the
    # other there is HTTP as elsewhere: health and metrics of this broker.
    tls: ssl.SSLContext | None
    # Of the cluster.
    key: bytes
    # As it is announced.
    address: str

    def protocol(self, first: int) -> AmqpConnection | HttpConnection:
        """For a connection that begins with this byte."""
        return self.http() if first in _FIRST_LETTERS_OF_VERBS else self.amqp()


_ProtocolOf = Callable[[int], AmqpConnection | HttpConnection]
_Admission = tuple[Callable[[], asyncio.Protocol], ssl.SSLContext | None]


class Arrival:
    """A connected socket from which nothing was read yet."""

    def __init__(
        self,
        connected: socket.socket,
        server: "Server",
        for_peers: PeerDoors | None = None,
    ) -> None:
        """`for_peers`: what serves on the listener for other brokers."""
        self._socket = connected
        self._server = server
        self._for_peers = for_peers
        self._started_at = server.clock.monotonic()
        # The TLS handshake, if there is one.
        self._admission: asyncio.Task[None] | None = None
        self.requests: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(connected, self._on_readable)
        server.joined(self)

    def _on_readable(self) -> None:
        try:
            first = self._socket.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        admission = self._admission_of(first[0]) if first else None
        if admission is None:
            self.abort()
            return
        self._loop.remove_reader(self._socket)
        self._admission = self._loop.create_task(self._admit(*admission))

    def _admission_of(self, first: int) -> _Admission | None:
        """The protocol for a connection that begins with this byte, and the TLS around
        it; None if it is not served."""
        server, peers = self._server, self._for_peers
        usual: _ProtocolOf = partial(_protocol, server=server)
        protocol_of, tls = usual, server.tls
        if peers is not None:
            protocol_of, tls = peers.protocol, peers.tls
        if first == _TLS_HANDSHAKE:
            inside = partial(TlsArrival, server, protocol_of)
            return None if tls is None else (inside, tls)
        if peers is None:
            return partial(usual, first), None
        if first == GREETING and tls is None:
            return partial(PeerArrival, server, peers), None
        is_http = first in _FIRST_LETTERS_OF_VERBS
        return (partial(usual, first), None) if is_http else None

    async def _admit(
        self, protocol: Callable[[], asyncio.Protocol], tls: ssl.SSLContext | None
    ) -> None:
        try:
            # Small frames are sent at once, not when there are more of them.
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(
                protocol,
                self._socket,
                ssl=tls,
                ssl_handshake_timeout=self._server.handshake_ms / 1000 if tls else None,
            )
        except (OSError, EOFError) as error:
            # Also errors of ssl: the peer does not trust us, or speaks something else.
            _log.info("a connection ended in its handshake: %s", error)
            self._socket.close()
        finally:
            self._server.left(self)

    # --- interface to the server ----------------------------------------------

    def tick(self, now: int, monotonic: int) -> None:
        """Once TLS has begun, it has its own deadline."""
        waited_ms = monotonic - self._started_at
        if self._admission is None and waited_ms > self._server.handshake_ms:
            self.abort()

    def pause_reading(self) -> None:
        """Does nothing: nothing is read here."""

    def resume_reading(self) -> None:
        """Does nothing: nothing is read here."""

    def close(self, error: ServiceBusError | None, monotonic: int) -> None:
        self.abort()

    def abort(self) -> None:
        if self._admission is not None:
            self._admission.cancel()
            return
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._server.left(self)

    def described(self) -> str:
        return "nothing received yet"

    def cut(self, error: ServiceBusError) -> None:
        """No error can be sent yet."""
        self.abort()


class _Unknown(asyncio.Protocol):
    """A connection of which the protocol inside is not known yet."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._started_at = server.clock.monotonic()
        self._transport: asyncio.Transport | None = None
        self.requests: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not of asyncio's class.
        self._transport = cast(asyncio.Transport, transport)
        self._server.joined(self)

    def _hand_over(self, protocol_of: _ProtocolOf, data: bytes) -> None:
        """`data` is the first that was received of it."""
        assert self._transport is not None
        successor = protocol_of(data[0])
        self._server.left(self)
        self._transport.set_protocol(successor)
        successor.connection_made(self._transport)
        successor.data_received(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._server.left(self)

    def tick(self, now: int, monotonic: int) -> None:
        if monotonic - self._started_at > self._server.handshake_ms:
            self.abort()

    def pause_reading(self) -> None:
        """Does nothing: the next protocol learns it when it joins."""

    def resume_reading(self) -> None:
        """Does nothing: the next protocol learns it when it joins."""

    def close(self, error: ServiceBusError | None, monotonic: int) -> None:
        self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def described(self) -> str:
        return "nothing received yet"

    def cut(self, error: ServiceBusError) -> None:
        """No error can be sent yet."""
        self.abort()


class TlsArrival(_Unknown):
    """A TLS connection on which nothing was received yet."""

    def __init__(self, server: "Server", protocol_of: _ProtocolOf) -> None:
        super().__init__(server)
        self._protocol_of = protocol_of

    def data_received(self, data: bytes) -> None:
        self._hand_over(self._protocol_of, data)


class PeerArrival(_Unknown):
    """The connection of a program that greets as a broker of this machine."""

    def __init__(self, server: "Server", peers: PeerDoors) -> None:
        super().__init__(server)
        self._peers = peers
        self._received = b""
        # None until its nonce is here.
        self._greeting: Greeting | None = None
        self._is_proved = False

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._received += data
        if self._greeting is None and len(self._received) >= HELLO_BYTES:
            self._greeting = self._greeting_for(self._take(HELLO_BYTES)[1:])
            self._transport.write(self._greeting.answer())
        if self._greeting is None:
            return
        if not self._is_proved and len(self._received) >= PROOF_BYTES:
            if not self._greeting.is_proof_of_connecting(self._take(PROOF_BYTES)):
                _log.info("a program without the key of the cluster is refused")
                self.abort()
                return
            self._is_proved = True
        if self._is_proved and self._received:
            self._hand_over(self._peers.protocol, self._received)

    def _greeting_for(self, nonce: bytes) -> Greeting:
        return Greeting(
            key=self._peers.key,
            address=self._peers.address,
            nonce_of_connecting=nonce,
            nonce_of_accepting=secrets.token_bytes(NONCE_BYTES),
        )

    def _take(self, count: int) -> bytes:
        taken, self._received = self._received[:count], self._received[count:]
        return taken
