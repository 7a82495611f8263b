"""Results as a file: what the benches write and `report` reads.

A file holds raw measurements, never medians: how they are summed up is decided
when they are read, and a doubtful figure can be traced to its rounds.
"""

import json
import shlex
import sys
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench.load_client import Latency
from bench.machine import describe_machine, describe_versions
from bench.measure import Measurement
from bench.twinbus_server import IS_PLAIN


@dataclass(frozen=True, slots=True)
class Origin:
    """Where and how a result was made."""

    machine: str
    versions: str
    command: str
    at: str


@dataclass(slots=True)
class CaseResult:
    """All rounds of one case, by the name of the server."""

    name: str
    rounds: dict[str, list[Measurement]] = field(default_factory=dict)
    failures: dict[str, list[str]] = field(default_factory=dict)

    def add(self, server: str, measurement: Measurement) -> None:
        self.rounds.setdefault(server, []).append(measurement)

    def add_failure(self, server: str, reason: str) -> None:
        self.failures.setdefault(server, []).append(reason)


@dataclass(frozen=True, slots=True)
class Summary:
    """The rounds of one server at one case, summed up."""

    rate: float
    lowest: float
    highest: float
    server_cpu_us: float
    client_cpu_share: float
    p50_us: float
    p99_us: float
    p999_us: float


@dataclass(frozen=True, slots=True)
class BacklogResult:
    """One backlog of one size."""

    kind: str
    messages: int
    load_seconds: float
    data_bytes: int
    # High-water marks: of the process that took the backlog in, and of the one
    # that was started on it, at `ready` and after some traffic.
    loading_bytes: int
    ready_bytes: int
    working_bytes: int
    restart_seconds: float
    first_receive_ms: float


@dataclass(frozen=True, slots=True)
class StartResult:
    """An empty server; medians."""

    first_start_seconds: float
    next_start_seconds: float
    idle_bytes: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """A case in two trees of twinbus, the measurements of a round side by side."""

    name: str
    here: list[Measurement]
    there: list[Measurement]

    def rate_ratios(self) -> list[float]:
        pairs = zip(self.here, self.there, strict=True)
        return [a.messages_per_second / b.messages_per_second for a, b in pairs]

    def least_cpu_ratio(self) -> float:
        """Of each side's best round: what others took of the machine is not in it."""
        here = min(one.server_cpu_us for one in self.here)
        return here / min(one.server_cpu_us for one in self.there)

    def cpu_ratios(self) -> list[float]:
        pairs = zip(self.here, self.there, strict=True)
        return [a.server_cpu_us / b.server_cpu_us for a, b in pairs]


@dataclass(frozen=True, slots=True)
class InstructionsResult:
    """Instructions per message in two trees of twinbus, once for each round."""

    name: str
    here: list[int]
    there: list[int]


@dataclass(frozen=True, slots=True)
class DiskResult:
    """What the same messages for several readers take of the disk."""

    size: int
    messages: int
    readers: int
    topic_bytes: int
    queues_bytes: int


@dataclass(frozen=True, slots=True)
class RulesResult:
    """Sending to a topic with so many rules of one kind."""

    kind: str
    count: int
    rounds: list[Measurement]


@dataclass(frozen=True, slots=True)
class EntitiesResult:
    """A server with that many entities, besides the one queue of every bench."""

    kind: str
    count: int
    created_per_second: float
    # At rest: after they were made, and after a restart.
    created_bytes: int
    restarted_bytes: int
    start_seconds: float


@dataclass(frozen=True, slots=True)
class EntityLatency:
    """One message at a time, with that many entities around."""

    count: int
    send: list[Measurement]
    receive: list[Measurement]


def origin_of(module: str) -> Origin:
    """The origin of what this process measures."""
    command = shlex.join(["python", "-m", module, *sys.argv[1:]])
    return Origin(
        machine=describe_machine(),
        versions=describe_versions(),
        command=f"TWINBUS_PURE=1 {command}" if IS_PLAIN else command,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def summarize(rounds: list[Measurement]) -> Summary:
    """Medians, with the lowest and highest throughput as the spread."""
    rates = [one.messages_per_second for one in rounds]
    return Summary(
        rate=median(rates),
        lowest=min(rates),
        highest=max(rates),
        server_cpu_us=median(one.server_cpu_us for one in rounds),
        client_cpu_share=max(one.client_cpu_share for one in rounds),
        p50_us=median(one.latency.p50 for one in rounds),
        p99_us=median(one.latency.p99 for one in rounds),
        p999_us=median(one.latency.p999 for one in rounds),
    )


def write_results(file: Path, origin: Origin, **parts: Any) -> None:
    """Each part is a result or a list of them."""
    content: dict[str, Any] = {"origin": asdict(origin)}
    for name, part in parts.items():
        is_list = isinstance(part, list)
        content[name] = [asdict(one) for one in part] if is_list else asdict(part)
    file.write_text(json.dumps(content, indent=1) + "\n")


def read_cases(cases: list[dict[str, Any]]) -> list[CaseResult]:
    return [
        CaseResult(
            name=case["name"],
            rounds={
                server: _measurements(rounds)
                for server, rounds in case["rounds"].items()
            },
            failures=case["failures"],
        )
        for case in cases
    ]


def read_backlogs(content: dict[str, Any]) -> tuple[StartResult, list[BacklogResult]]:
    backlogs = [BacklogResult(**one) for one in content["backlogs"]]
    return StartResult(**content["start"]), backlogs


def read_comparisons(content: dict[str, Any]) -> list[Comparison]:
    return [
        Comparison(one["name"], _measurements(one["here"]), _measurements(one["there"]))
        for one in content["comparisons"]
    ]


def read_rules(content: dict[str, Any]) -> list[RulesResult]:
    return [
        RulesResult(one["kind"], one["count"], _measurements(one["rounds"]))
        for one in content["rules"]
    ]


def read_entity_latencies(content: dict[str, Any]) -> list[EntityLatency]:
    return [
        EntityLatency(
            one["count"], _measurements(one["send"]), _measurements(one["receive"])
        )
        for one in content["latencies"]
    ]


def _measurements(contents: list[dict[str, Any]]) -> list[Measurement]:
    return [
        Measurement(**content | {"latency": Latency(**content["latency"])})
        for content in contents
    ]
