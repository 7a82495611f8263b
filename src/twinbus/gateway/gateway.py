"""Who answers which HTTP request.

    GET /health      health.py; not for clients that name an api-version, which mean
                     an entity of that name
    GET /metrics     metrics.py; likewise
    all the rest     administration of entities

Paths that are no entity's (messages, WebSockets) get their branch here.
"""

from twinbus.gateway.administration.administration import Administration
from twinbus.gateway.health import Health
from twinbus.gateway.metrics import Metrics
from twinbus.gateway.request import HttpRequest
from twinbus.gateway.response import HttpResponse
from twinbus.limits import ENTITY_REQUEST_BYTES


class Gateway:
    """Answers the HTTP requests of all connections."""

    def __init__(
        self, administration: Administration, health: Health, metrics: Metrics
    ) -> None:
        self._administration = administration
        self._health = health
        self.metrics = metrics

    def max_body_bytes(self, request: HttpRequest) -> int:
        return ENTITY_REQUEST_BYTES

    async def answer(self, request: HttpRequest) -> HttpResponse:
        if request.path in ("health", "metrics") and (
            "api-version" not in request.query
        ):
            asked = self._health if request.path == "health" else self.metrics
            return await asked.answer(request)
        return await self._administration.answer(request)
