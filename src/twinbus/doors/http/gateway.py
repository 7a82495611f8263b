"""Routes the HTTP requests to one namespace.

GET /health      health.py; with an api-version it means an entity of that name
GET /metrics     metrics.py; likewise
/$bulk...        bulk/, unless the bus is strict
/$faults...      fault_requests.py
/$diagnosis      diagnosis_requests.py
/$namespaces...  namespace_requests.py; these three at the default namespace only
.../messages...  messaging/, if path and method mean messages
WebSockets       refused, unless the path is theirs: doors/websocket/
anything else    administration of entities
"""

from typing import Final, Protocol

from twinbus.doors.http.administration.administration import Administration
from twinbus.doors.http.bulk.bulk import PREFIX, Bulk
from twinbus.doors.http.diagnosis_requests import DiagnosisRequests
from twinbus.doors.http.fault_requests import FaultRequests
from twinbus.doors.http.guard import (
    held_up,
    is_guess,
    note_administration,
    note_outcome,
)
from twinbus.doors.http.health import Health
from twinbus.doors.http.json_response import json_refusal
from twinbus.doors.http.messaging.messaging import HttpMessaging
from twinbus.doors.http.messaging.messaging_path import messaging_path
from twinbus.doors.http.metrics import Metrics
from twinbus.doors.http.namespace_requests import NamespaceRequests
from twinbus.doors.http.own_paths import DIAGNOSIS, FAULTS, NAMESPACES
from twinbus.doors.http.request import HttpRequest
from twinbus.doors.http.response import HttpResponse, text_response
from twinbus.errors import NotAllowed
from twinbus.limits import ENTITY_REQUEST_BYTES

_NO_WEBSOCKETS: Final = (
    "There is no WebSocket here. AMQP over WebSockets is at /$servicebus/websocket of "
    "the ports for clients."
)


_SERVER_PATHS: Final = (FAULTS, DIAGNOSIS, NAMESPACES)
_ELSEWHERE: Final = (
    "This is about the whole server: ask its default namespace, with a key of that one."
)


class _Answering(Protocol):
    async def answer(self, request: HttpRequest) -> HttpResponse: ...


class Gateway:
    """Answers the HTTP requests of all connections to one namespace."""

    def __init__(
        self,
        administration: Administration,
        health: Health,
        metrics: Metrics,
        bulk: Bulk | None = None,
        messaging: HttpMessaging | None = None,
    ) -> None:
        self._administration = administration
        self._health = health
        self.metrics = metrics
        self._bulk = bulk
        self._messaging = messaging
        # Of the whole server, by the first part of the path.
        self._of_server: dict[str, _Answering] = {}

    def manage_server(
        self,
        faults: FaultRequests,
        diagnosis: DiagnosisRequests,
        namespaces: NamespaceRequests,
    ) -> None:
        """This is the gateway of the default namespace."""
        self._of_server = {
            FAULTS: faults,
            DIAGNOSIS: diagnosis,
            NAMESPACES: namespaces,
        }

    def shows_key(self, request: HttpRequest) -> bool:
        policy = self._administration.policy
        if held_up(request) is not None or is_guess(request, policy):
            return False
        return self._administration.shows_key(request)

    def max_body_bytes(self, request: HttpRequest) -> int:
        if held_up(request) is not None:
            return ENTITY_REQUEST_BYTES
        if self._bulk is not None and _is_bulk(request):
            return self._bulk.max_body_bytes(request)
        if self._messaging is not None and (path := messaging_path(request)):
            return self._messaging.max_body_bytes(request, path)
        return ENTITY_REQUEST_BYTES

    def too_large(self, request: HttpRequest, text: str) -> HttpResponse:
        refusal = held_up(request)
        if refusal is not None:
            return refusal
        response = self._too_large(request, text)
        note_outcome(request, response.status, self._administration.policy)
        return response

    def _too_large(self, request: HttpRequest, text: str) -> HttpResponse:
        if self._bulk is not None and _is_bulk(request):
            return self._bulk.too_large(request, text)
        if self._messaging is not None and (path := messaging_path(request)):
            return self._messaging.too_large(request, path, text)
        return text_response(413, text)

    def stop_waiting(self) -> None:
        """The server stops: requests that wait for messages are answered."""
        if self._messaging is not None:
            self._messaging.stop_waiting()

    async def answer(self, request: HttpRequest) -> HttpResponse:
        if request.headers.get("upgrade", "").lower() == "websocket":
            return text_response(404, _NO_WEBSOCKETS)
        refusal = held_up(request)
        if refusal is not None:
            return refusal
        response = await self._answer(request)
        note_outcome(request, response.status, self._administration.policy)
        return response

    async def _answer(self, request: HttpRequest) -> HttpResponse:
        if self._bulk is not None and _is_bulk(request):
            return await self._bulk.answer(request)
        if request.path in ("health", "metrics") and (
            "api-version" not in request.query
        ):
            asked = self._health if request.path == "health" else self.metrics
            return await asked.answer(request)
        if (of_server := self._of_server.get(_first(request))) is not None:
            return await self._audited(request, of_server)
        if not self._of_server and _first(request) in _SERVER_PATHS:
            return json_refusal(NotAllowed(_ELSEWHERE))
        if self._messaging is not None and (path := messaging_path(request)):
            return await self._messaging.answer(request, path)
        return await self._audited(request, self._administration)

    async def _audited(self, request: HttpRequest, asked: _Answering) -> HttpResponse:
        response = await asked.answer(request)
        policy = self._administration.policy
        note_administration(request, response.status, policy)
        return response


def _is_bulk(request: HttpRequest) -> bool:
    return _first(request) == PREFIX


def _first(request: HttpRequest) -> str:
    """The first part of the path."""
    return request.path.partition("/")[0]
