"""What the bench of pairs found: values, tables, and whether it is good enough."""

from dataclasses import dataclass, field
from statistics import median
from typing import Any

from bench.pairing_audit import Verdict
from bench.tables import markdown_table

OWN_ENGINE = "twinbus"
SDK_ENGINE = "azure-servicebus"

DRAIN_BAR = 5_000
"""Messages a second between two twinbus namespaces."""


@dataclass(frozen=True, slots=True)
class Outage:
    """One time that the primary was away. Seconds since the kill or the freeze, or
    since it was started or thawed again."""

    kind: str
    seconds: float
    # Until the first sender, and until the last one, diverted its first message.
    first_diverted_seconds: float
    last_diverted_seconds: float
    # From the start (or thaw): `ready`, and all senders healthy.
    ready_seconds: float
    recovered_seconds: float
    # From the start until the backlog began to shrink, and until it was empty.
    drain_began_seconds: float
    drained_seconds: float
    backlog: int

    @property
    def drain_rate(self) -> float:
        return self.backlog / max(self.drained_seconds - self.drain_began_seconds, 0.1)


@dataclass(frozen=True, slots=True)
class LoadResult:
    """A run of senders, a receiver and a syphon through outages."""

    syphon: str
    senders: int
    # Messages a second and sender: asked for, and achieved over the whole run.
    asked_rate: float
    rate: float
    seconds: float
    messages_per_call: float
    slowest_call_seconds: float
    sender_cpu_us: float
    # Of the machine, at the end: above its cores, others were kept waiting.
    load_average: float
    failover_bound_seconds: float
    failed: int
    diverted: int
    # In all queues of both namespaces, when all was over.
    left_over: int
    verdict: Verdict
    outages: list[Outage]

    def faults(self) -> list[str]:
        """Which bars are not met."""
        found = []
        if self.failed:
            found.append(f"{self.failed} sends failed")
        if not self.verdict.is_clean:
            found.append(f"audit: {', '.join(self.verdict.samples)}")
        if self.left_over:
            found.append(f"{self.left_over} messages are left in some queue")
        for outage in self.outages:
            if outage.last_diverted_seconds > self.failover_bound_seconds:
                found.append(
                    f"{outage.kind}: {outage.last_diverted_seconds:.1f} s to the first "
                    f"diverted message, more than {self.failover_bound_seconds:.1f}"
                )
        return found


@dataclass(frozen=True, slots=True)
class DrainResult:
    """A backlog drained by one engine without any other load, once for each round."""

    engine: str
    messages: int
    rates: list[float] = field(default_factory=list)
    # CPU time per message, in microseconds: of the syphon, and of each namespace.
    syphon_cpu_us: list[float] = field(default_factory=list)
    primary_cpu_us: list[float] = field(default_factory=list)
    secondary_cpu_us: list[float] = field(default_factory=list)

    def faults(self) -> list[str]:
        if self.engine == OWN_ENGINE and median(self.rates) < DRAIN_BAR:
            return [f"drained {median(self.rates):,.0f} msg/s, less than {DRAIN_BAR:,}"]
        return []


def load_table(results: list[LoadResult]) -> str:
    columns = (
        *("syphon", "senders", "msg/s each", "asked", "accepted", "failed"),
        *("received once", "twice", "never", "redelivered", "diverted"),
        *("messages per call", "slowest call s", "sender CPU us/msg", "load average"),
    )
    return markdown_table(columns, [_load_row(one) for one in results])


def _load_row(one: LoadResult) -> tuple[str, ...]:
    verdict = one.verdict
    return (
        one.syphon,
        f"{one.senders}",
        f"{one.rate:,.0f}",
        f"{one.asked_rate:,.0f}",
        f"{verdict.accepted:,}",
        f"{one.failed}",
        f"{verdict.once:,}",
        f"{verdict.twice}",
        f"{verdict.never}",
        f"{verdict.redelivered}",
        f"{one.diverted:,}",
        f"{one.messages_per_call:.1f}",
        f"{one.slowest_call_seconds:.1f}",
        f"{one.sender_cpu_us:.0f}",
        f"{one.load_average:.1f}",
    )


def outage_table(results: list[LoadResult]) -> str:
    columns = (
        *("syphon", "outage", "s", "first diverted s", "last sender's s", "at most s"),
        *("ready s", "recovered s", "backlog", "drain began s", "drained s"),
        "drained msg/s",
    )
    rows = [
        (
            result.syphon,
            one.kind,
            f"{one.seconds:.0f}",
            f"{one.first_diverted_seconds:.1f}",
            f"{one.last_diverted_seconds:.1f}",
            f"{result.failover_bound_seconds:.1f}",
            f"{one.ready_seconds:.1f}",
            f"{one.recovered_seconds:.1f}",
            f"{one.backlog:,}",
            f"{one.drain_began_seconds:.1f}",
            f"{one.drained_seconds:.1f}",
            f"{one.drain_rate:,.0f}",
        )
        for result in results
        for one in result.outages
    ]
    return markdown_table(columns, rows)


def drain_table(results: list[DrainResult]) -> str:
    columns = (
        *("engine", "messages", "rounds", "msg/s", "spread"),
        *("syphon CPU us/msg", "primary CPU us/msg", "secondary CPU us/msg"),
    )
    rows = [
        (
            one.engine,
            f"{one.messages:,}",
            f"{len(one.rates)}",
            f"{median(one.rates):,.0f}",
            f"{min(one.rates):,.0f}..{max(one.rates):,.0f}",
            f"{median(one.syphon_cpu_us):.0f}",
            f"{median(one.primary_cpu_us):.0f}",
            f"{median(one.secondary_cpu_us):.0f}",
        )
        for one in results
    ]
    return markdown_table(columns, rows)


def read_loads(content: list[dict[str, Any]]) -> list[LoadResult]:
    return [
        LoadResult(
            **{
                **one,
                "verdict": Verdict(**one["verdict"]),
                "outages": [Outage(**outage) for outage in one["outages"]],
            }
        )
        for one in content
    ]
