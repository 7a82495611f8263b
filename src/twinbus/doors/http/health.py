"""`GET /health`: whether a message could be stored now.

It asks each store for a commit, like a sender. So a store is unhealthy if its commits
fail or take too long. It needs no token, and tells nothing else but the names of
stores.

    200 healthy      all stores commit
    200 degraded     some do not; their entities are not available
    503 unhealthy    none does
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from twinbus.doors.http.request import HttpRequest
from twinbus.doors.http.response import HttpResponse, text_response
from twinbus.errors import ServiceBusError

_PATIENCE_SECONDS: Final = 5.0
"""Clients of health checks usually give up after about this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedStore:
    """A store as a health check sees it."""

    name: str
    # Returns when everything accepted so far is durable. Raises ServiceBusError.
    commit: Callable[[], Awaitable[object]]


class Health:
    """Answers health checks."""

    def __init__(self, stores: Sequence[CheckedStore]) -> None:
        self._stores = stores

    async def answer(self, request: HttpRequest) -> HttpResponse:
        if request.method not in ("GET", "HEAD"):
            return text_response(405, "Use GET.")
        troubles = await asyncio.gather(*map(_trouble_of, self._stores))
        if not any(troubles):
            return text_response(200, "healthy")
        if len(self._stores) == 1:
            return text_response(503, f"unhealthy: {troubles[0]}")
        told = [
            f"store {store.name}: {trouble}"
            for store, trouble in zip(self._stores, troubles, strict=True)
            if trouble
        ]
        if all(troubles):
            return text_response(503, "\n".join(["unhealthy", *told]))
        return text_response(200, "\n".join(["degraded", *told]))


async def _trouble_of(store: CheckedStore) -> str:
    """Why it does not commit; empty if it does."""
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await store.commit()
    except TimeoutError:
        return f"a commit takes longer than {_PATIENCE_SECONDS} seconds"
    except ServiceBusError as error:
        return error.text
    return ""
