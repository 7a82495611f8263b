"""`GET /health`: whether a message could be stored now.

It waits for a commit like a sender. So it is unhealthy if commits fail or take too
long. It needs no token and returns nothing else.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from twinbus.doors.http.request import HttpRequest
from twinbus.doors.http.response import HttpResponse, text_response
from twinbus.errors import ServiceBusError

_PATIENCE_SECONDS: Final = 5.0
"""Clients of health checks usually give up after about this time."""


class Health:
    """Answers health checks."""

    def __init__(self, commit: Callable[[], Awaitable[object]]) -> None:
        # Returns when everything accepted so far is durable.
        self._commit = commit

    async def answer(self, request: HttpRequest) -> HttpResponse:
        if request.method not in ("GET", "HEAD"):
            return text_response(405, "Use GET.")
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._commit()
        except TimeoutError:
            text = f"unhealthy: a commit takes longer than {_PATIENCE_SECONDS} seconds"
            return text_response(503, text)
        except ServiceBusError as error:
            return text_response(503, f"unhealthy: {error.text}")
        return text_response(200, "healthy")
