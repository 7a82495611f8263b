"""What a pair of namespaces costs, and would cost with other settings.

Pure: it gets what was counted in the logs. A syphon's long polls and its looks for new
queues cost without an outage; pings and the way through the backlog because of one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from twinbus.pairing.settings import FAILOVER_INTERVAL_MS, PING_PRIMARY_INTERVAL_MS
from twinbus.pairing.syphon.settings import DISCOVERY_MS, POLL_MS
from twinbus.spark.jobs.meter.price_book import PriceBook

_HOUR_MS: Final = 3_600_000
HOURS_OF_30_DAYS: Final = 720

DIRECT: Final = ("send", "lock", "complete")
"""The way of a message that is sent, received and completed."""
DETOUR: Final = ("divert", "lock", "complete", "restore", "lock", "complete")
"""Its way through the backlog, to the receiver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSettings:
    """Settings of a pair that its costs depend on."""

    # None: as many as the logs show.
    backlog_queue_count: int | None = None
    syphon_hosts: int = 1
    ping_interval_seconds: float = PING_PRIMARY_INTERVAL_MS / 1000
    failover_interval_seconds: float = FAILOVER_INTERVAL_MS / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityOutage:
    """What an outage did to one entity, counted in the logs."""

    entity: str
    # Pings of all clients, and how many clients sent any.
    pings: int
    clients: int
    # From the first sign of it to the last.
    seconds: float
    diverted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PairUse:
    """What the logs show of a pair."""

    hours: float
    backlog_queues: int
    idle_receives: int
    administration: int
    diverted: int
    restored: int
    mean_size_bytes: int
    outages: tuple[EntityOutage, ...] = ()

    @property
    def pings(self) -> int:
        return sum(one.pings for one in self.outages)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairCost:
    """Billed operations of a pair by one book, for the time of the logs."""

    book: str
    currency: str
    hours: float
    idle_receives: float
    administration: float
    pings: float
    # Beyond what the same messages cost without an outage.
    detours: float
    diverted_messages: int
    cost: float
    # Long polls and looks for queues in 30 days without an outage.
    idle_of_30_days: float

    @property
    def billed(self) -> float:
        return self.idle_receives + self.administration + self.pings + self.detours


def idle_receives(hours: float, queues: int, hosts: int = 1) -> float:
    """Long polls that find nothing: every host waits at every queue, POLL_MS long."""
    return hosts * queues * hours * _HOUR_MS / POLL_MS


def administration_requests(hours: float, hosts: int = 1) -> float:
    """A syphon looks for new backlog queues once each DISCOVERY_MS."""
    return hosts * hours * _HOUR_MS / DISCOVERY_MS


def pings_of(
    minutes: float, interval_seconds: float, entities: int, clients: int
) -> int:
    """Of one outage: each client pings each entity that it cannot reach."""
    return ceil(minutes * 60 / interval_seconds) * entities * clients


def observed_cost(use: PairUse, book: PriceBook, settings: CostSettings) -> PairCost:
    """What the pair has cost by a book."""
    return _cost(use, book, settings)


def supposed_cost(
    use: PairUse, book: PriceBook, now: CostSettings, then: CostSettings
) -> PairCost:
    """What it would have cost with other settings, in the same outages."""
    queues = then.backlog_queue_count
    if queues is None:
        queues = now.backlog_queue_count or use.backlog_queues
    supposed = replace(
        use,
        backlog_queues=queues,
        idle_receives=round(idle_receives(use.hours, queues, then.syphon_hosts)),
        administration=round(administration_requests(use.hours, then.syphon_hosts)),
        outages=tuple(_supposed_outages(use.outages, now, then)),
    )
    diverted = sum(one.diverted for one in supposed.outages)
    if use.outages:
        supposed = replace(supposed, diverted=diverted, restored=diverted)
    return _cost(supposed, book, then)


def _supposed_outages(
    outages: Iterable[EntityOutage], now: CostSettings, then: CostSettings
) -> Iterable[EntityOutage]:
    for one in outages:
        # Pings that failed span the outage without its failover interval.
        clients = max(one.clients, 1)
        span = one.pings / clients * now.ping_interval_seconds
        # Messages come as fast before the failover as after it.
        whole = one.seconds + now.failover_interval_seconds
        rate = one.diverted / max(one.seconds, 1.0)
        left = max(whole - then.failover_interval_seconds, 0.0)
        span = max(span + now.failover_interval_seconds, 0.0)
        span = max(span - then.failover_interval_seconds, 0.0) if one.pings else 0.0
        yield replace(
            one,
            pings=ceil(span / then.ping_interval_seconds) * clients,
            seconds=left,
            diverted=round(rate * left),
        )


def _cost(use: PairUse, book: PriceBook, settings: CostSettings) -> PairCost:
    counts = book.counts
    size = use.mean_size_bytes
    detour = book.of_message(size, *DETOUR) - book.of_message(size, *DIRECT)
    queues = settings.backlog_queue_count or use.backlog_queues
    idle = idle_receives(HOURS_OF_30_DAYS, queues, settings.syphon_hosts)
    looks = administration_requests(HOURS_OF_30_DAYS, settings.syphon_hosts)
    empty, asked = counts.get("receive_empty", 0), counts.get("administration", 0)
    found = PairCost(
        book=book.name,
        currency=book.currency,
        hours=use.hours,
        idle_receives=use.idle_receives * empty,
        administration=use.administration * asked,
        pings=use.pings * counts.get("ping", 0),
        detours=use.diverted * detour,
        diverted_messages=use.diverted,
        cost=0.0,
        idle_of_30_days=idle * empty + looks * asked,
    )
    return replace(found, cost=book.cost(found.billed))
