"""`python -m bench.backlog`: what millions of waiting messages cost.

For each kind of backlog a small and a large one: memory while it grows, time of a
restart to `ready`, the first receive after it, and memory at work on top of the
backlog. Also an empty server: how long until `ready`, how much memory at rest.
Memory is the most the process ever held (its high-water mark), so a peak between
two samples does not escape.
"""

import argparse
import enum
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from bench.load_client import LoadResult, build_client, run_load
from bench.prerequisites import MissingPrerequisite
from bench.processes import Usage, usage_of_tree
from bench.results import BacklogResult, StartResult, origin_of, write_results
from bench.tables import backlog_table, start_table
from bench.twinbus_server import IS_PLAIN, TwinbusServer

_LARGE = 5_000_000
_SMALL = 10_000
_TRAFFIC = 10_000
_STARTS = 5
_REST_SECONDS = 3.0

# Far enough away that nothing becomes due while it is measured.
_HOUR_SECONDS = 3600
_DAY_SECONDS = 24 * _HOUR_SECONDS


class Kind(enum.StrEnum):
    """Why the messages wait."""

    PLAIN = "plain"
    TTL = "ttl"
    DEFERRED = "deferred"
    SCHEDULED = "scheduled"


def measure_backlog(kind: Kind, messages: int, is_plain: bool) -> BacklogResult:
    """Load a backlog, restart on it, receive from it."""
    with TwinbusServer(is_plain) as server:
        began = time.monotonic()
        _load(server, kind, messages)
        load_seconds = time.monotonic() - began
        loading = _usage(server)
        server.stop()
        data_bytes = server.data_bytes
        server.start()
        ready = _usage(server)
        first = _first_receive(server, kind)
        both = ["both", "--ignore-ids", "--settle", "confirmed"]
        _run(server, [*both, "--count", str(_TRAFFIC)])
        return BacklogResult(
            kind=kind,
            messages=messages,
            load_seconds=load_seconds,
            data_bytes=data_bytes,
            loading_bytes=loading.peak_bytes,
            ready_bytes=ready.peak_bytes,
            working_bytes=_usage(server).peak_bytes,
            restart_seconds=server.ready_seconds,
            first_receive_ms=first.latency.max / 1000,
        )


def measure_start(is_plain: bool) -> StartResult:
    """Start on nothing, and again on what the first start made."""
    firsts, nexts, idle = [], [], []
    for _ in range(_STARTS):
        with TwinbusServer(is_plain) as server:
            firsts.append(server.ready_seconds)
            server.stop()
            server.start()
            nexts.append(server.ready_seconds)
            time.sleep(_REST_SECONDS)
            idle.append(_usage(server).resident_bytes)
    return StartResult(median(firsts), median(nexts), int(median(idle)))


def _load(server: TwinbusServer, kind: Kind, messages: int) -> None:
    count = ["--count", str(messages), "--connections", "2"]
    envelope = ["--batch", "100", "--window", "10"]
    _run(server, ["batch", *count, *envelope, *_annotations(kind)])
    if kind is Kind.DEFERRED:
        _run(server, ["receive", "--settle", "defer", *count])


def _annotations(kind: Kind) -> list[str]:
    if kind is Kind.TTL:
        return ["--ttl-ms", f"{_HOUR_SECONDS * 1000}:{_DAY_SECONDS * 1000}"]
    if kind is Kind.SCHEDULED:
        return ["--schedule-s", f"{_HOUR_SECONDS}:{_DAY_SECONDS}"]
    return []


def _first_receive(server: TwinbusServer, kind: Kind) -> LoadResult:
    """Receive one message; where none of the backlog is ready, a fresh one."""
    if kind in (Kind.DEFERRED, Kind.SCHEDULED):
        _run(server, ["send", "--count", "1"])
    receive = ["receive", "--settle", "confirmed", "--ignore-ids"]
    return _run(server, [*receive, "--count", "1", "--window", "1"])


def _run(server: TwinbusServer, arguments: list[str]) -> LoadResult:
    return run_load(server.target, arguments, is_tls=False)


def _usage(server: TwinbusServer) -> Usage:
    return usage_of_tree(server.pid)


def measure_all(options: argparse.Namespace) -> Iterator[BacklogResult]:
    """Every chosen kind, small before large."""
    for kind in options.kinds:
        for messages in (options.small, options.messages):
            yield measure_backlog(kind, messages, options.plain)


def main() -> int:
    """Run from the command line."""
    options = _parse_options()
    try:
        build_client()
    except MissingPrerequisite as error:
        print(error, file=sys.stderr)
        return 2
    start = measure_start(options.plain)
    print(start_table(start), flush=True)
    backlogs = []
    for result in measure_all(options):
        backlogs.append(result)
        print(backlog_table(backlogs[-1:]), file=sys.stderr, flush=True)
        if options.json:
            origin = origin_of("bench.backlog")
            write_results(options.json, origin, start=start, backlogs=backlogs)
    print(backlog_table(backlogs))
    return 0


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.backlog", description=__doc__
    )
    parser.add_argument("--messages", type=int, default=_LARGE, help="large backlog")
    parser.add_argument("--small", type=int, default=_SMALL, help="small backlog")
    parser.add_argument(
        "--kinds", nargs="+", type=Kind, choices=list(Kind), default=list(Kind)
    )
    parser.add_argument(
        "--plain", action="store_true", default=IS_PLAIN, help="plain Python"
    )
    parser.add_argument("--json", type=Path, help="write raw results to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
