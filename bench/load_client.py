"""Runs the C load client: builds it when its sources changed, reads its answer.

The client exits with 0 only if nothing was refused, missing or delivered twice;
everything else becomes `LoadFailed` with the client's first error. It knows what
a `Target` is (where and as whom to connect) and nothing about the server behind.
"""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.prerequisites import (
    COMPILER_INSTALL,
    MissingPrerequisite,
    require_compiler,
)

_FOLDER = Path(__file__).parent
_BINARY = _FOLDER.parent / "build" / "bench" / "load"

# Longer than any measured run: reaching it means a hung client, not a slow server.
_HUNG_SECONDS = 1800


class LoadFailed(Exception):
    """The load client found something refused, missing, doubled or too late."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where the load goes: one queue on one server."""

    port: int
    tls_port: int
    user: str
    password: str
    address: str
    # What this server needs the client to overlook; empty for a correct one.
    allowances: tuple[str, ...] = ()

    def arguments(self, is_tls: bool) -> list[str]:
        port = ["--tls", "--port", str(self.tls_port)] if is_tls else []
        return [
            *(port or ["--port", str(self.port)]),
            *("--user", self.user, "--password", self.password),
            *("--address", self.address),
            *self.allowances,
        ]


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles in microseconds."""

    p50: float
    p90: float
    p99: float
    p999: float
    max: float


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What one run of the load client measured."""

    messages: int
    seconds: float
    messages_per_second: float
    client_cpu_seconds: float
    latency: Latency
    # From the intended send to the arrival at a receiver; only if it did both.
    delivery_latency: Latency | None


def build_client() -> None:
    """Compile the load client unless it is newer than its sources."""
    sources = [_FOLDER / "load.c", *(_FOLDER / "load").glob("*.h")]
    newest = max(source.stat().st_mtime for source in sources)
    if _BINARY.exists() and _BINARY.stat().st_mtime >= newest:
        return
    compiler = require_compiler()
    _BINARY.parent.mkdir(parents=True, exist_ok=True)
    source = str(_FOLDER / "load.c")
    libraries = ["-lssl", "-lcrypto"]
    done = subprocess.run(
        [compiler, "-O2", "-o", str(_BINARY), source, *libraries],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise MissingPrerequisite(f"{done.stderr}{COMPILER_INSTALL}")


def run_load(target: Target, arguments: Sequence[str], is_tls: bool) -> LoadResult:
    """Run the client to its end; raise `LoadFailed` unless all went well."""
    command = [str(_BINARY), *arguments, *target.arguments(is_tls)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_HUNG_SECONDS
    )
    if not done.stdout:
        raise LoadFailed(done.stderr.strip() or f"exit code {done.returncode}")
    answer = json.loads(done.stdout)
    if done.returncode != 0:
        raise LoadFailed(f"{answer['errors']} errors: {answer.get('first_error')}")
    return _result_from(answer)


def _result_from(answer: dict[str, Any]) -> LoadResult:
    delivery = answer.get("delivery_latency_us")
    return LoadResult(
        messages=answer["messages"],
        seconds=answer["seconds"],
        messages_per_second=answer["msgs_per_s"],
        client_cpu_seconds=answer["client_cpu_s"],
        latency=_latency_from(answer["latency_us"]),
        delivery_latency=_latency_from(delivery) if delivery else None,
    )


def _latency_from(answer: dict[str, float]) -> Latency:
    return Latency(
        p50=answer["p50"],
        p90=answer["p90"],
        p99=answer["p99"],
        p999=answer["p99.9"],
        max=answer["max"],
    )
