"""`GET /metrics`: the metrics of the bus, for Prometheus.

    /metrics                 the bus, the sums, and the fullest entities
    /metrics?entities=5000   with lines for up to this many entities; 0: none

Names of entities are confidential, so it needs the Listen claim on the namespace: by a
shared access signature, or by a key in HTTP basic authorization, which Prometheus can
store without renewing it.

Ten thousand entities take half a second. It is done in slices, so that the loop can
serve clients in between. They are megabytes, too: few pages are made at a time, and
none while clients leave too many answers unread.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from twinbus.auth.policy import Policy
from twinbus.clock import Clock
from twinbus.doors.http.administration.authorization import require_listen
from twinbus.doors.http.bus_metrics import (
    EntityFigures,
    MeasuredBus,
    entity_families,
    fullest,
    lease_families,
    process_families,
    store_families,
    sum_families,
)
from twinbus.doors.http.held_bytes import HeldBytes
from twinbus.doors.http.request import HttpRequest
from twinbus.doors.http.response import HttpResponse, text_response
from twinbus.errors import ServiceBusError
from twinbus.limits import METRICS_ENTITIES, METRICS_PAGES

_SLICE: Final = 50
"""Entities per slice: a few milliseconds."""


class Guarded(Protocol):
    """Has the access rules."""

    @property
    def policy(self) -> Policy: ...


class Metrics:
    """Answers requests for metrics."""

    def __init__(
        self, bus: MeasuredBus, namespace: Guarded, clock: Clock, held: HeldBytes
    ) -> None:
        self._bus = bus
        self._namespace = namespace
        self._clock = clock
        self._held = held
        self._turns = asyncio.Semaphore(METRICS_PAGES)
        # For other metrics of this process: those of a pair.
        self.registry = CollectorRegistry()
        self._process = ProcessCollector(registry=None)

    async def answer(self, request: HttpRequest) -> HttpResponse:
        try:
            require_listen(request, self._namespace.policy, self._clock.now())
            if request.method not in ("GET", "HEAD"):
                return text_response(405, "Use GET.")
            limit = _limit(request.query.get("entities"))
        except ServiceBusError as error:
            return _unauthorized(error)
        except ValueError as error:
            return text_response(400, str(error))
        async with self._turns:
            if self._held.is_full:
                return text_response(503, self._held.text)
            return HttpResponse(
                status=200,
                body=await self._page(limit),
                headers={"content-type": CONTENT_TYPE_PLAIN_0_0_4},
            )

    async def _page(self, limit: int) -> bytes:
        entities = await self._entities()
        shown = fullest(entities, limit)
        head = [
            _text(self._process.collect()),
            _text(process_families(self._bus.process_figures())),
            _text(store_families(self._bus.store_figures())),
            _text(sum_families(entities, len(shown))),
            _text(lease_families(entities)),
            _text(self.registry.collect()),
        ]
        return b"".join((*head, *await _of_entities(shown)))

    async def _entities(self) -> list[EntityFigures]:
        found: list[EntityFigures] = []
        names = self._bus.entity_names()
        for start in range(0, len(names), _SLICE):
            found += self._bus.entity_figures(names[start : start + _SLICE])
            await asyncio.sleep(0)
        return found


class _Families:
    """The part of a registry that the writer needs."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _text(families: Iterable[Metric]) -> bytes:
    return generate_latest(_Families(families))


async def _of_entities(entities: Sequence[EntityFigures]) -> list[bytes]:
    """Their lines, by family: the lines of a family must be together."""
    parts: list[list[bytes]] = []
    for start in range(0, len(entities), _SLICE):
        families = entity_families(entities[start : start + _SLICE])
        texts = [_text((family,)) for family in families]
        if start == 0:
            parts = [[text] for text in texts]
        else:
            for lines, text in zip(parts, texts, strict=True):
                # The first two lines describe the family, and were written before.
                lines.append(text.split(b"\n", 2)[2])
        await asyncio.sleep(0)
    return [b"".join(lines) for lines in parts]


def _limit(text: str | None) -> int:
    """How many entities to show. Raises ValueError."""
    if text is None:
        return METRICS_ENTITIES
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise ValueError(f"entities is {text[:20]!r}; give a number.")
    return int(text)


def _unauthorized(error: ServiceBusError) -> HttpResponse:
    response = text_response(error.http_status, error.text)
    headers = {**response.headers, "www-authenticate": 'Basic realm="twinbus"'}
    return HttpResponse(status=response.status, body=response.body, headers=headers)
