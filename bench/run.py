"""`python -m bench.run`: twinbus and RabbitMQ under the same load, in turns.

All servers run at once, but only one is under load at a time; a round measures
each case on each server before the next round begins, so that a slow minute of the
machine falls on all of them. A server that fails a case is replaced by a fresh one.
Without RabbitMQ the run says how to install it and measures twinbus alone.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from bench.cases import Case, all_cases, quick_cases, usual_cases
from bench.load_client import LoadFailed, build_client
from bench.measure import Bench
from bench.prerequisites import RABBITMQ_INSTALL, MissingPrerequisite, find_rabbitmq
from bench.rabbitmq import RabbitMQ
from bench.results import CaseResult, origin_of, summarize, write_results
from bench.server import Server, ServerFailed
from bench.tables import PLAIN, RABBITMQ, TWINBUS, case_table
from bench.twinbus_server import TwinbusServer

MAKERS: dict[str, Callable[[], Server]] = {
    TWINBUS: lambda: TwinbusServer(is_plain=False),
    PLAIN: lambda: TwinbusServer(is_plain=True),
    RABBITMQ: RabbitMQ,
}


class Contestant:
    """A server by name, started at first use and replaced after a failure."""

    def __init__(self, name: str, seconds: float, stack: ExitStack) -> None:
        self.name = name
        self._seconds = seconds
        self._stack = stack
        self._server: ExitStack | None = None
        self._bench: Bench | None = None

    def measure(self, case: Case, result: CaseResult) -> None:
        """Add a measurement of the case, or the reason why there is none."""
        try:
            if self._bench is None:
                self._start()
            assert self._bench is not None
            measurement = self._bench.measure(case)
        except (LoadFailed, ServerFailed) as error:
            result.add_failure(self.name, str(error))
            self._stop()
        else:
            result.add(self.name, measurement)

    def _start(self) -> None:
        self._server = self._stack.enter_context(ExitStack())
        server = self._server.enter_context(MAKERS[self.name]())
        self._bench = Bench(server, self._seconds)

    def _stop(self) -> None:
        if self._server is not None:
            self._server.close()
        self._server = self._bench = None


def takes_part(name: str, case: Case) -> bool:
    """Whether a server is measured at a case."""
    if name == RABBITMQ:
        return case.is_for_rabbitmq
    return name != PLAIN or case.is_for_plain


def measure_rounds(
    cases: list[Case], names: list[str], rounds: int, seconds: float
) -> Iterator[CaseResult]:
    """Measure all rounds; yields the result of a case each time it grew."""
    results = {case: CaseResult(case.name) for case in cases}
    with ExitStack() as stack:
        contestants = [Contestant(name, seconds, stack) for name in names]
        for _ in range(rounds):
            for case in cases:
                for contestant in contestants:
                    if takes_part(contestant.name, case):
                        contestant.measure(case, results[case])
                yield results[case]


def main() -> int:
    """Run from the command line; 1 if any case failed."""
    options = _parse_options()
    try:
        build_client()
    except MissingPrerequisite as error:
        print(error, file=sys.stderr)
        return 2
    names = _available(options.servers.split(","))
    cases = [case for case in _chosen(options) if re.search(options.only, case.name)]
    results: dict[str, CaseResult] = {}
    for result in measure_rounds(cases, names, options.rounds, options.seconds):
        results[result.name] = result
        print(_progress(result), file=sys.stderr, flush=True)
        if options.json:
            origin = origin_of("bench.run")
            write_results(options.json, origin, cases=list(results.values()))
    print(case_table(results.values()))
    return 1 if any(result.failures for result in results.values()) else 0


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.run", description=__doc__)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--quick", action="store_true", help="headline cases, once")
    choice.add_argument("--all", action="store_true", help="every combination")
    parser.add_argument("--only", default="", help="cases whose name matches")
    parser.add_argument("--servers", default=",".join(MAKERS), help="default: all")
    parser.add_argument("--rounds", type=int, help="default 5, quick 1")
    parser.add_argument("--seconds", type=float, help="per measurement; 3, quick 1.5")
    parser.add_argument("--json", type=Path, help="write raw results to this file")
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 5)
    options.seconds = options.seconds or (1.5 if options.quick else 3.0)
    return options


def _chosen(options: argparse.Namespace) -> list[Case]:
    if options.all:
        return all_cases()
    return quick_cases() if options.quick else usual_cases()


def _available(names: list[str]) -> list[str]:
    unknown = set(names).difference(MAKERS)
    if unknown:
        raise SystemExit(f"no such server: {', '.join(sorted(unknown))}")
    if RABBITMQ in names and find_rabbitmq() is None:
        names.remove(RABBITMQ)
        print(
            f"RabbitMQ is not installed, so twinbus runs alone. {RABBITMQ_INSTALL}",
            file=sys.stderr,
        )
    return names


def _progress(result: CaseResult) -> str:
    """The case and the median so far of each server."""
    parts = [
        f"{server} {summarize(rounds).rate:,.0f}"
        for server, rounds in result.rounds.items()
    ]
    parts += [f"{server} failed: {why[-1]}" for server, why in result.failures.items()]
    return f"{result.name}: " + ", ".join(parts)


if __name__ == "__main__":
    sys.exit(main())
