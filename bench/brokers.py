"""`python -m bench.brokers`: two brokers on the processors of one machine, beside one.

Both servers have two SQLite stores, and a queue with 16 fragments in them; they are
measured in turns, and each round gives one ratio for each case. The clients of two
brokers are spread over both. What a client sends to a fragment of the other broker, or
gets from one, takes the hop between them. The load client uses the same processors, so
the ratio says what is gained on a machine that is full, not what two machines give.

Receiving alone is not measured: at its end the last messages are reserved for clients
that have no more credit, and go back after a second.
"""

import argparse
import sys
from contextlib import ExitStack
from statistics import median

from bench.cases import Case, Operation
from bench.load_client import build_client
from bench.measure import Bench
from bench.twinbus_server import TwinbusServer

_STORES = 2
_CONFIG = """\
[queues.bench]
max_size_in_megabytes = 5120
enable_partitioning = true
"""

CASES = {
    "send, 8 connections": Case(Operation.SEND, connections=8),
    "send and receive, 8 connections": Case(Operation.BOTH, connections=8),
    "send, 64 connections, window 1": Case(Operation.SEND, connections=64, window=1),
}


def compare(rounds: int, seconds: float) -> dict[str, list[float]]:
    """Ratios of the rates of two brokers to those of one, by case."""
    found: dict[str, list[float]] = {}
    with ExitStack() as stack:
        benches = [
            Bench(
                stack.enter_context(
                    TwinbusServer(config=_CONFIG, stores=_STORES, brokers=brokers)
                ),
                seconds,
            )
            for brokers in (2, 1)
        ]
        for number in range(rounds):
            for name, case in CASES.items():
                order = benches if number % 2 == 0 else benches[::-1]
                rates = {one: one.measure(case).messages_per_second for one in order}
                ratio = rates[benches[0]] / rates[benches[1]]
                found.setdefault(name, []).append(ratio)
                print(f"{name}: {ratio:.3f}", file=sys.stderr, flush=True)
    return found


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.brokers", description=__doc__
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="per measurement")
    options = parser.parse_args()
    build_client()
    found = compare(options.rounds, options.seconds)
    print("| two brokers / one | median | lowest | highest |")
    print("|---|---|---|---|")
    for name, ratios in found.items():
        spread = f"{min(ratios):.3f} | {max(ratios):.3f}"
        print(f"| {name} | {median(ratios):.3f} | {spread} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
