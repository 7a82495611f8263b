"""`python -m bench.partitions`: a partitioned queue beside a conventional one.

Two servers of one kind, measured in turns; each round gives one ratio for each case, so
that what slows the machine down slows down both sides.

    conventional   one SQLite store, a queue with one fragment
    partitioned    four SQLite stores, a queue with 16 fragments

The base cases are throughput. "One message" is what a waiting receiver notices: one
message at a time on an otherwise idle queue. With `--slow RATE` all stores are slowed
to that many messages a second, by a delay inside their sync: then a queue on four of
them should be about four times as fast.
"""

import argparse
import subprocess
import sys
from contextlib import ExitStack
from statistics import median

from bench.cases import Case, Operation
from bench.load_client import build_client
from bench.measure import Bench, Measurement
from bench.twinbus_server import TwinbusServer

STORES = 4

_QUEUE = "[queues.bench]\nmax_size_in_megabytes = 5120\n"
_PARTITIONED = _QUEUE + "enable_partitioning = true\n"

CASES = {
    "send": Case(Operation.SEND),
    "receive, presettled": Case(Operation.RECEIVE_PRESETTLED),
    "receive, confirmed": Case(Operation.RECEIVE_CONFIRMED),
    "send, 64 connections, window 1": Case(Operation.SEND, connections=64, window=1),
}
ONE_MESSAGE = Case(Operation.FIXED_RATE, window=1, rate=100)


def compare(rounds: int, seconds: float, slow: int) -> dict[str, list[float]]:
    """Ratios of the partitioned queue to the conventional one, by case."""
    found: dict[str, list[float]] = {}
    faults = "[server]\nallow_faults = true\n" if slow else ""
    with ExitStack() as stack:
        conventional = stack.enter_context(TwinbusServer(config=faults + _QUEUE))
        partitioned = stack.enter_context(
            TwinbusServer(config=faults + _PARTITIONED, stores=STORES)
        )
        if slow:
            for server in (conventional, partitioned):
                _slow_down(server, slow)
        benches = (Bench(partitioned, seconds), Bench(conventional, seconds))
        for number in range(rounds):
            for name, case in _cases(slow).items():
                here, there = _measured(benches, case, is_swapped=number % 2 == 1)
                for what, ratio in _ratios(name, here, there):
                    found.setdefault(what, []).append(ratio)
                    shown = f"{what}: {ratio:.3f}"
                    print(shown, file=sys.stderr, flush=True)
    return found


def _slow_down(server: TwinbusServer, rate: int) -> None:
    """Let each store take no more than so many messages a second."""
    target = server.target
    connection_string = (
        f"Endpoint=sb://localhost:{target.port};SharedAccessKeyName={target.user};"
        f"SharedAccessKey={target.password};UseDevelopmentEmulator=true"
    )
    subprocess.run(
        [
            *(sys.executable, "-m", "twinbus", "faults", "set", "slow"),
            *("--rate", str(rate), "--connection-string", connection_string),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def _cases(slow: int) -> dict[str, Case]:
    if slow:
        return {"send, 8 connections": Case(Operation.SEND, connections=8)}
    return {**CASES, "one message": ONE_MESSAGE}


def _measured(
    benches: tuple[Bench, Bench], case: Case, is_swapped: bool
) -> tuple[Measurement, Measurement]:
    here, there = benches
    if is_swapped:
        second = there.measure(case)
        return here.measure(case), second
    return here.measure(case), there.measure(case)


def _ratios(
    name: str, here: Measurement, there: Measurement
) -> list[tuple[str, float]]:
    if name == "one message":
        return [
            ("one message: median latency", here.latency.p50 / there.latency.p50),
            ("one message: 99th percentile", here.latency.p99 / there.latency.p99),
        ]
    rate = here.messages_per_second / there.messages_per_second
    cpu = here.server_cpu_us / there.server_cpu_us
    return [(f"{name}: rate", rate), (f"{name}: CPU", cpu)]


def main() -> int:
    """Run from the command line."""
    options = _parse_options()
    build_client()
    found = compare(options.rounds, options.seconds, options.slow)
    print("| partitioned / conventional | median | lowest | highest |")
    print("|---|---|---|---|")
    for name, ratios in found.items():
        spread = f"{min(ratios):.3f} | {max(ratios):.3f}"
        print(f"| {name} | {median(ratios):.3f} | {spread} |")
    return 0


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.partitions", description=__doc__
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="per measurement")
    parser.add_argument(
        "--slow", type=int, default=0, help="messages a second of each store"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
