"""Routes HTTP requests on the listener for other brokers.

/$peers/bulk/...        bulk/peer_bulk.py
/$peers/management/...  peer_management.py
anything else           as on every other listener
"""

from collections.abc import Callable

from twinbus.doors.http.bulk.peer_bulk import NAMESPACE, PREFIX, PeerBulk
from twinbus.doors.http.http_connection import Responder
from twinbus.doors.http.peer_management import PREFIX as MANAGEMENT
from twinbus.doors.http.peer_management import PeerManagement
from twinbus.doors.http.request import HttpRequest
from twinbus.doors.http.response import HttpResponse


class PeerGateway:
    """Answers other brokers, and those who ask this broker for its health."""

    def __init__(
        self,
        gateway: Responder,
        bulk_of: Callable[[str], PeerBulk | None],
        management: PeerManagement | None = None,
    ) -> None:
        """`bulk_of` gives that of the namespace with this name; an empty one means the
        default."""
        self._gateway = gateway
        self._bulk_of = bulk_of
        self._management = management

    def shows_key(self, request: HttpRequest) -> bool:
        return self._for(request).shows_key(request)

    def max_body_bytes(self, request: HttpRequest) -> int:
        return self._for(request).max_body_bytes(request)

    def too_large(self, request: HttpRequest, text: str) -> HttpResponse:
        return self._for(request).too_large(request, text)

    async def answer(self, request: HttpRequest) -> HttpResponse:
        return await self._for(request).answer(request)

    def _for(self, request: HttpRequest) -> Responder:
        management = self._management
        if management is not None and request.path.startswith(MANAGEMENT):
            return management
        if not request.path.startswith(PREFIX):
            return self._gateway
        bulk = self._bulk_of(request.headers.get(NAMESPACE, ""))
        return self._gateway if bulk is None else bulk
