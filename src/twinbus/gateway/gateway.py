"""Who answers which HTTP request.

    GET /health      health.py; not for clients that name an api-version, which mean
                     an entity of that name
    all the rest     administration of entities

Paths that are no entity's (messages, WebSockets, metrics) get their branch here.
"""

from twinbus.gateway.administration.administration import Administration
from twinbus.gateway.health import Health
from twinbus.gateway.request import HttpRequest
from twinbus.gateway.response import HttpResponse
from twinbus.limits import ENTITY_REQUEST_BYTES


class Gateway:
    """Answers the HTTP requests of all connections."""

    def __init__(self, administration: Administration, health: Health) -> None:
        self._administration = administration
        self._health = health

    def max_body_bytes(self, request: HttpRequest) -> int:
        return ENTITY_REQUEST_BYTES

    async def answer(self, request: HttpRequest) -> HttpResponse:
        if request.path == "health" and "api-version" not in request.query:
            return await self._health.answer(request)
        return await self._administration.answer(request)
