"""Detects the protocol of a new connection by its first byte.

    0x16             TLS; one of the others is inside
    G P D H O T C    the verb of an HTTP request, which may ask for a WebSocket with
                     AMQP inside
    anything else    AMQP, which answers a wrong header with its own

The first bytes are all different, so one is enough. It is peeked from the socket, so
that the protocol that takes over reads the stream from its start. Inside TLS that is
not possible, and the first bytes are handed over. A client that sends nothing in time
is disconnected.
"""

import asyncio
import logging
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
    # None: no TLS, as between brokers of one machine. Otherwise both are inside of it,
    # and outside there is HTTP as elsewhere: health and metrics of this broker.
    tls: ssl.SSLContext | None

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
        if peers is None or tls is None:
            return partial(protocol_of, first), None
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


class TlsArrival(asyncio.Protocol):
    """A TLS connection on which nothing was received yet."""

    def __init__(self, server: "Server", protocol_of: _ProtocolOf) -> None:
        self._server = server
        self._protocol_of = protocol_of
        self._started_at = server.clock.monotonic()
        self._transport: asyncio.Transport | None = None
        self.requests: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not of asyncio's class.
        self._transport = cast(asyncio.Transport, transport)
        self._server.joined(self)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        successor = self._protocol_of(data[0])
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
