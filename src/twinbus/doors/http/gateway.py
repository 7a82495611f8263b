"""Routes HTTP requests.

GET /health      health.py; with an api-version it means an entity of that name
GET /metrics     metrics.py; likewise
/$bulk...        bulk/, unless the bus is strict
/$faults...      fault_requests.py
/$diagnosis      diagnosis_requests.py
WebSockets       refused, before a key is asked for
anything else    administration of entities
"""

from typing import Final

from twinbus.doors.http.administration.administration import Administration
from twinbus.doors.http.bulk.bulk import PREFIX, Bulk
from twinbus.doors.http.diagnosis_requests import DiagnosisRequests
from twinbus.doors.http.fault_requests import FaultRequests
from twinbus.doors.http.health import Health
from twinbus.doors.http.metrics import Metrics
from twinbus.doors.http.own_paths import DIAGNOSIS, FAULTS
from twinbus.doors.http.request import HttpRequest
from twinbus.doors.http.response import HttpResponse, text_response
from twinbus.limits import ENTITY_REQUEST_BYTES

_NO_WEBSOCKETS: Final = (
    "AMQP over WebSockets is not offered by this server. Connect by AMQP over TCP or "
    "TLS (transport type Amqp, not AmqpWebSockets)."
)


class Gateway:
    """Answers the HTTP requests of all connections."""

    def __init__(
        self,
        administration: Administration,
        health: Health,
        metrics: Metrics,
        bulk: Bulk | None = None,
        faults: FaultRequests | None = None,
        diagnosis: DiagnosisRequests | None = None,
    ) -> None:
        self._administration = administration
        self._health = health
        self.metrics = metrics
        self._bulk = bulk
        self._faults = faults
        self._diagnosis = diagnosis

    def shows_key(self, request: HttpRequest) -> bool:
        return self._administration.shows_key(request)

    def max_body_bytes(self, request: HttpRequest) -> int:
        if self._bulk is not None and _is_bulk(request):
            return self._bulk.max_body_bytes(request)
        return ENTITY_REQUEST_BYTES

    async def answer(self, request: HttpRequest) -> HttpResponse:
        if request.headers.get("upgrade", "").lower() == "websocket":
            return text_response(501, _NO_WEBSOCKETS)
        if self._bulk is not None and _is_bulk(request):
            return await self._bulk.answer(request)
        if request.path in ("health", "metrics") and (
            "api-version" not in request.query
        ):
            asked = self._health if request.path == "health" else self.metrics
            return await asked.answer(request)
        if self._faults is not None and _first(request) == FAULTS:
            return await self._faults.answer(request)
        if self._diagnosis is not None and _first(request) == DIAGNOSIS:
            return await self._diagnosis.answer(request)
        return await self._administration.answer(request)


def _is_bulk(request: HttpRequest) -> bool:
    return _first(request) == PREFIX


def _first(request: HttpRequest) -> str:
    """The first part of the path."""
    return request.path.partition("/")[0]
