"""Connects to other brokers, and to nobody else.

To a broker of another machine there is TLS, with certificates from the key of the
cluster. One of this machine proves that it knows the key (`greeting.py`).
"""

import asyncio
import secrets
import socket
import ssl
from collections.abc import Callable
from typing import Final, Protocol, TypeVar, cast

from twinbus.peers.greeting import (
    ANSWER_BYTES,
    NONCE_BYTES,
    Greeting,
    hello,
)
from twinbus.peers.peer_address import host_and_port

_Made = TypeVar("_Made", bound=asyncio.BaseProtocol)

TlsTo = Callable[[str], ssl.SSLContext | None]
"""The TLS to the broker with this address; None: it is on this machine."""

_NOT_A_BROKER: Final = "what listens there does not know the key of the cluster"


class NotABroker(ConnectionError):
    """The address of a broker is somebody else's now."""


class PeerReach(Protocol):
    """Connects to the broker with this address. Raises OSError."""

    async def __call__(
        self, address: str, make: Callable[[], _Made]
    ) -> tuple[asyncio.Transport, _Made]: ...


class ClusterReach:
    """The way of a broker to the others."""

    def __init__(self, key: bytes, tls_to: TlsTo) -> None:
        """`key` is that of the cluster."""
        self._key = key
        self._tls_to = tls_to

    async def __call__(
        self, address: str, make: Callable[[], _Made]
    ) -> tuple[asyncio.Transport, _Made]:
        loop = asyncio.get_running_loop()
        host, port = host_and_port(address)
        tls = self._tls_to(address)
        if tls is not None:
            return await loop.create_connection(make, host, port, ssl=tls)
        greeted = await self._greeted(address)
        try:
            return await loop.create_connection(make, sock=greeted)
        except BaseException:
            greeted.close()
            raise

    async def _greeted(self, address: str) -> socket.socket:
        """Connected, and both sides have proved that they know the key."""
        host, port = host_and_port(address)
        loop = asyncio.get_running_loop()
        (found, *_) = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, target = found
        connected = socket.socket(family, kind, protocol)
        try:
            connected.setblocking(False)
            # The proof and what follows it are small, and go at once.
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(connected, target)
            await self._greet(connected, address)
        except BaseException:
            connected.close()
            raise
        return connected

    async def _greet(self, connected: socket.socket, address: str) -> None:
        """Raises OSError."""
        loop = asyncio.get_running_loop()
        nonce = secrets.token_bytes(NONCE_BYTES)
        await loop.sock_sendall(connected, hello(nonce))
        answer = await _exactly(connected, ANSWER_BYTES)
        greeting = Greeting(
            key=self._key,
            address=address,
            nonce_of_connecting=nonce,
            nonce_of_accepting=answer[:NONCE_BYTES],
        )
        if not greeting.is_proof_of_accepting(answer[NONCE_BYTES:]):
            raise NotABroker(_NOT_A_BROKER)
        await loop.sock_sendall(connected, greeting.proof())


async def _exactly(connected: socket.socket, count: int) -> bytes:
    """Raises OSError."""
    loop = asyncio.get_running_loop()
    found = b""
    while len(found) < count:
        more = await loop.sock_recv(connected, count - len(found))
        if not more:
            raise NotABroker(_NOT_A_BROKER)
        found += more
    return found


async def reach_nobody(
    address: str, make: Callable[[], _Made]
) -> tuple[asyncio.Transport, _Made]:
    """Before there is a cluster."""
    raise ConnectionRefusedError(f"there is no cluster with a broker at {address}")


async def read_and_write(
    reach: PeerReach, address: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Streams to the broker with this address. Raises OSError."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(loop=loop)
    transport, protocol = await reach(
        address, lambda: asyncio.StreamReaderProtocol(reader, loop=loop)
    )
    # uvloop's transports are not of asyncio's class.
    written = cast(asyncio.WriteTransport, transport)
    return reader, asyncio.StreamWriter(written, protocol, reader, loop)
