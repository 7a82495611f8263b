"""`python -m bench.against TREE`: is this tree slower than another one?

Another tree is a checkout of twinbus, compiled there (`make compiled`) if this one is.
Both servers run at once and are measured in turns, the base cases only; each round
gives one ratio per case, so that what slows the machine down slows down both sides of
it. Where others use the machine, CPU per message is the steadier figure, and that of
the best round of each side the steadiest.
"""

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bench.cases import Case, Operation
from bench.load_client import build_client
from bench.measure import Bench, Measurement
from bench.results import Comparison, origin_of, write_results
from bench.tables import comparison_table
from bench.twinbus_server import TwinbusServer

CASES = (
    Case(Operation.SEND),
    Case(Operation.RECEIVE_PRESETTLED),
    Case(Operation.RECEIVE_CONFIRMED),
    Case(Operation.SEND, connections=64, window=1),
    Case(Operation.RECEIVE_PRESETTLED, connections=64, window=1),
)


def compare(other: Path, rounds: int, seconds: float) -> list[Comparison]:
    """All cases, in turns; who goes first changes with every round."""
    found = {case: Comparison(case.name, [], []) for case in CASES}
    with ExitStack() as stack:
        here = Bench(stack.enter_context(TwinbusServer()), seconds)
        there = Bench(stack.enter_context(TwinbusServer(source=other)), seconds)
        for number in range(rounds):
            for case in CASES:
                pair = _measure_pair(here, there, case, is_swapped=number % 2 == 1)
                found[case].here.append(pair[0])
                found[case].there.append(pair[1])
                print(_progress(found[case]), file=sys.stderr, flush=True)
    return list(found.values())


def _measure_pair(
    here: Bench, there: Bench, case: Case, is_swapped: bool
) -> tuple[Measurement, Measurement]:
    if is_swapped:
        second = there.measure(case)
        return here.measure(case), second
    return here.measure(case), there.measure(case)


def _progress(comparison: Comparison) -> str:
    rate, cpu = comparison.rate_ratios(), comparison.cpu_ratios()
    return f"{comparison.name}: {median(rate):.3f} of the rate, {median(cpu):.3f} CPU"


def main() -> int:
    """Run from the command line."""
    options = _parse_options()
    build_client()
    found = compare(options.tree, options.rounds, options.seconds)
    if options.json:
        write_results(options.json, origin_of("bench.against"), comparisons=found)
    print(comparison_table(found))
    return 0


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.against", description=__doc__
    )
    parser.add_argument("tree", type=Path, help="folder of the other tree")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.5, help="per measurement")
    parser.add_argument("--json", type=Path, help="write raw results to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
