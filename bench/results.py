"""Results as a file: what `run` and `backlog` write and `report` reads.

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


def origin_of(module: str) -> Origin:
    """The origin of what this process measures."""
    return Origin(
        machine=describe_machine(),
        versions=describe_versions(),
        command=shlex.join(["python", "-m", module, *sys.argv[1:]]),
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


def write_cases(file: Path, origin: Origin, results: list[CaseResult]) -> None:
    content = {"origin": asdict(origin), "cases": [asdict(one) for one in results]}
    file.write_text(json.dumps(content, indent=1) + "\n")


def read_cases(content: dict[str, Any]) -> list[CaseResult]:
    return [
        CaseResult(
            name=case["name"],
            rounds={
                server: [_measurement_from(one) for one in rounds]
                for server, rounds in case["rounds"].items()
            },
            failures=case["failures"],
        )
        for case in content["cases"]
    ]


def write_backlogs(
    file: Path, origin: Origin, start: StartResult, backlogs: list[BacklogResult]
) -> None:
    content = {
        "origin": asdict(origin),
        "start": asdict(start),
        "backlogs": [asdict(one) for one in backlogs],
    }
    file.write_text(json.dumps(content, indent=1) + "\n")


def read_backlogs(content: dict[str, Any]) -> tuple[StartResult, list[BacklogResult]]:
    backlogs = [BacklogResult(**one) for one in content["backlogs"]]
    return StartResult(**content["start"]), backlogs


def _measurement_from(content: dict[str, Any]) -> Measurement:
    return Measurement(**content | {"latency": Latency(**content["latency"])})
