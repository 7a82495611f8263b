"""The doors of a simulated broker: AMQP and HTTP at the same port, as a server has it.

Over HTTP there are bulk requests and the administration; of other brokers also their
shares of bulk requests.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from twinbus.auth.policy import Policy
from twinbus.clock import Clock
from twinbus.doors.http.administration.administration import Administration
from twinbus.doors.http.bulk.bulk import PREFIX, Bulk
from twinbus.doors.http.bulk.peer_bulk import PeerBulk
from twinbus.doors.http.held_bytes import HeldBytes
from twinbus.doors.http.peer_gateway import PeerGateway
from twinbus.doors.http.request import HttpRequest
from twinbus.doors.http.response import HttpResponse, text_response
from twinbus.entities.namespace import Namespace
from twinbus.limits import ENTITY_REQUEST_BYTES
from twinbus.operations.bulk.bulk_entities import BulkEntities
from twinbus.peers.peers import Peers
from twinbus.process.cluster_bulk import ClusterBulk

_VERBS: Final = b"GPDHOTC"
"""First letters of HTTP; AMQP begins with another one."""

Factory = Callable[[], asyncio.Protocol]


class FirstByte(asyncio.Protocol):
    """A connection whose protocol is not known yet."""

    def __init__(self, amqp: Factory, http: Factory) -> None:
        self._amqp = amqp
        self._http = http
        self._transport: asyncio.BaseTransport | None = None
        self._protocol: asyncio.Protocol | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._protocol is None:
            assert self._transport is not None
            self._protocol = self._http() if data[0] in _VERBS else self._amqp()
            self._protocol.connection_made(self._transport)
        self._protocol.data_received(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self._protocol is not None:
            self._protocol.connection_lost(error)


class HttpDoor:
    """Answers clients over HTTP, and other brokers once there are some."""

    def __init__(
        self, namespace: Namespace, clock: Clock, entropy: Callable[[int], bytes]
    ) -> None:
        self._clock = clock
        self.held = HeldBytes()
        self._bulk = Bulk(BulkEntities(namespace), clock, self.held)
        self._administration = Administration(namespace, clock, entropy)

    def join(self, peers: Peers, key: bytes, policy: Policy) -> PeerGateway:
        """The broker is one of several: what answers the others."""
        cluster = ClusterBulk(peers, key, self._clock)
        self._bulk.entities.others, self._bulk.relay = cluster, cluster.ask
        here = self._bulk.entities.here
        peer_bulk = PeerBulk(here, self._bulk, self._clock, policy)
        return PeerGateway(self, lambda namespace: peer_bulk)

    def shows_key(self, request: HttpRequest) -> bool:
        return self._administration.shows_key(request)

    def max_body_bytes(self, request: HttpRequest) -> int:
        if _is_bulk(request):
            return self._bulk.max_body_bytes(request)
        return ENTITY_REQUEST_BYTES

    def too_large(self, request: HttpRequest, text: str) -> HttpResponse:
        return text_response(413, text)

    async def answer(self, request: HttpRequest) -> HttpResponse:
        if _is_bulk(request):
            return await self._bulk.answer(request)
        return await self._administration.answer(request)


def _is_bulk(request: HttpRequest) -> bool:
    return request.path.partition("/")[0] == PREFIX
