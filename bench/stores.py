"""`python -m bench.stores`: queues in several stores, beside the same ones in one.

Four queues, each with a client of its own, all at the same time. With one store they
share its commits, which are synced on the event loop. With four stores each queue is in
one of them, and each store syncs in a thread: that is for stores on different disks,
and costs something where they are on the same one, as here. The sum of what the clients
did in a second is shown, and the slowest client's latency.
"""

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from statistics import median

from bench.load_client import LoadResult, build_client, run_load
from bench.twinbus_server import TwinbusServer

QUEUES = 4
STORES = (1, 2, 4)
_CONFIG = "".join(
    f"[queues.bench-{number}]\nmax_size_in_megabytes = 5120\n"
    for number in range(QUEUES)
)
_CASES = {
    "send, window 1000": ["send", "--window", "1000"],
    "send, 16 connections, window 1": ["send", "--connections", "16", "--window", "1"],
    "send 4 KB, window 100": ["send", "--window", "100", "--size", "4096"],
}


def on_all_queues(
    server: TwinbusServer, arguments: list[str], counts: list[int] | None = None
) -> list[LoadResult]:
    """One client for each queue, at the same time."""
    targets = [
        replace(server.target, address=f"bench-{number}") for number in range(QUEUES)
    ]
    with ThreadPoolExecutor(QUEUES) as clients:
        runs = [
            clients.submit(
                run_load,
                target,
                [*arguments, *(["--count", str(counts[number])] if counts else [])],
                is_tls=False,
            )
            for number, target in enumerate(targets)
        ]
        return [run.result() for run in runs]


def measure(
    server: TwinbusServer, arguments: list[str], seconds: float
) -> list[tuple[str, float, float]]:
    """Sent and received messages a second, and the 99th percentile in ms."""
    sent = on_all_queues(server, [*arguments, "--duration", str(seconds)])
    shape = [*arguments[1:], "--settle", "confirmed"]
    counts = [result.messages for result in sent]
    received = on_all_queues(server, ["receive", *shape], counts)
    return [_summary("send", sent), _summary("receive", received)]


def _summary(name: str, results: list[LoadResult]) -> tuple[str, float, float]:
    rate = sum(result.messages_per_second for result in results)
    return name, rate, max(result.latency.p99 for result in results) / 1000


def main() -> int:
    """Run from the command line."""
    options = _parse_options()
    build_client()
    found: dict[tuple[str, str, int], list[tuple[float, float]]] = {}
    with ExitStack() as stack:
        servers = {
            count: stack.enter_context(
                TwinbusServer(options.plain, _CONFIG, stores=count)
            )
            for count in STORES
        }
        for _ in range(options.rounds):
            for case, arguments in _CASES.items():
                for count, server in servers.items():
                    for name, rate, p99 in measure(server, arguments, options.seconds):
                        found.setdefault((case, name, count), []).append((rate, p99))
                        shown = f"{case}: {name}, {count} stores: {rate:,.0f}"
                        print(shown, file=sys.stderr, flush=True)
    _print(found)
    return 0


def _print(found: dict[tuple[str, str, int], list[tuple[float, float]]]) -> None:
    print("| | " + " | ".join(f"{count} stores" for count in STORES) + " |")
    print("|---" * (len(STORES) + 1) + "|")
    for case, name in dict.fromkeys(key[:2] for key in found):
        cells = []
        for count in STORES:
            values = found[case, name, count]
            rate = median(rate for rate, _ in values)
            p99 = median(p99 for _, p99 in values)
            cells.append(f"{rate:,.0f}, p99 {p99:.1f} ms")
        print(f"| {case}: {name} | " + " | ".join(cells) + " |")


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.stores", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each sending")
    parser.add_argument("--plain", action="store_true", help="as plain Python")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
