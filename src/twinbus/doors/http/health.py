"""`GET /health`: whether a message could be stored now.

It asks each store for a commit, like a sender. So a store is unhealthy if its commits
fail or take too long. It needs no token, and tells nothing else but the names of
stores.

    200 healthy      all stores commit
    200 degraded     some do not; their entities are not available
    503 unhealthy    none does

Of several brokers each answers for the stores that it has itself. One that has none
passes everything on to the others, and is healthy. But without the catalog it does not
know for long who they are: then clients are better off with another broker. One that
has stores still serves these without the catalog, as all others do if it is down.

    200 degraded     the catalog cannot be reached; stores are served here
    503 unhealthy    the same, and none is
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

_SERVED_ON: Final = "Entities cannot be created, changed or removed."
_LOST: Final = "No store is served here, and who serves them now is not known here."


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedStore:
    """A store as a health check sees it."""

    name: str
    # Returns when everything accepted so far is durable. Raises ServiceBusError.
    commit: Callable[[], Awaitable[object]]
    # No other broker has it.
    is_here: Callable[[], bool] = lambda: True


class Health:
    """Answers health checks."""

    def __init__(
        self,
        stores: Sequence[CheckedStore],
        catalog_trouble: Callable[[], str] = lambda: "",
    ) -> None:
        """`catalog_trouble`: why the catalog cannot be used; empty if it can."""
        self._stores = stores
        self._catalog_trouble = catalog_trouble

    async def answer(self, request: HttpRequest) -> HttpResponse:
        if request.method not in ("GET", "HEAD"):
            return text_response(405, "Use GET.")
        here = [store for store in self._stores if store.is_here()]
        troubles = await asyncio.gather(*map(_trouble_of, here))
        catalog = self._catalog_trouble()
        if not any(troubles) and not catalog:
            return text_response(200, "healthy")
        if len(self._stores) == 1 and not catalog:
            return text_response(503, f"unhealthy: {troubles[0]}")
        told = [
            f"store {store.name}: {trouble}"
            for store, trouble in zip(here, troubles, strict=True)
            if trouble
        ]
        has_others = len(here) < len(self._stores)
        is_well = not all(troubles)
        if catalog:
            told.insert(0, f"catalog: {catalog} {_SERVED_ON if is_well else _LOST}")
        elif has_others:
            # It still passes on what others have, and nobody else has these.
            is_well = True
        if is_well:
            return text_response(200, "\n".join(["degraded", *told]))
        return text_response(503, "\n".join(["unhealthy", *told]))


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
