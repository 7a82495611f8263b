"""`python -m bench.rules`: what a thousand rules on a topic cost its senders.

Three kinds of rules, each once alone and a thousand times in one subscription. A
message matches exactly one of them, so what the topic does besides deciding is the
same: one copy for one subscription. Correlation filters and SQL filters on `property =
constant` are looked up; the third kind, all texts different and none a comparison
with a constant, is the worst there is: each is evaluated for every message.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bench.load_client import build_client, run_load
from bench.measure import Measurement, timed
from bench.results import RulesResult, origin_of, write_results
from bench.tables import rules_table
from bench.twinbus_server import TwinbusServer

MANY = 1000
_REGION = "r500"

KINDS: dict[str, Callable[[str], str]] = {
    "correlation": lambda region: (
        f'correlation_filter = {{ properties = {{ region = "{region}" }} }}'
    ),
    "SQL, region = 'x'": lambda region: f"sql_filter = \"region = '{region}'\"",
    "SQL, region LIKE '%x'": lambda region: f"sql_filter = \"region LIKE '%{region}'\"",
}


def config_of(kind: str) -> tuple[str, dict[int, str]]:
    """Two topics with rules of that kind, and their addresses by number of rules."""
    addresses = {1: "bench-one", MANY: "bench-many"}
    lines = []
    for count, topic in addresses.items():
        regions = [_REGION, *(f"r{number}" for number in range(1000, 999 + count))]
        for number, region in enumerate(regions):
            lines += [
                f"[[topics.{topic}.subscriptions.s.rules]]",
                f'name = "rule-{number}"',
                KINDS[kind](region),
            ]
    return "\n".join(lines), addresses


def measure_kind(kind: str, rounds: int, seconds: float) -> list[RulesResult]:
    """One rule and a thousand, in turns."""
    config, addresses = config_of(kind)
    results = {count: RulesResult(kind, count, []) for count in addresses}
    with TwinbusServer(config=config) as server:
        for number in range(rounds + 1):
            for count, address in addresses.items():
                measured = _measure(server, address, seconds)
                # The first round reads the rules, and warms up.
                if number > 0:
                    results[count].rounds.append(measured)
    return list(results.values())


def _measure(server: TwinbusServer, topic: str, seconds: float) -> Measurement:
    sends_to = replace(server.target, address=topic)
    receives_from = replace(server.target, address=f"{topic}/Subscriptions/s")
    arguments = ["send", "--duration", str(seconds), "--property", f"region={_REGION}"]
    measured, result = timed(sends_to, server.pid, arguments)
    count = ["--count", str(result.messages)]
    run_load(receives_from, ["receive", "--settle", "presettled", *count], False)
    return measured


def main() -> int:
    """Run from the command line."""
    options = _parse_options()
    build_client()
    results: list[RulesResult] = []
    for kind in KINDS:
        results += measure_kind(kind, options.rounds, options.seconds)
        print(rules_table(results[-2:]), file=sys.stderr, flush=True)
    if options.json:
        write_results(options.json, origin_of("bench.rules"), rules=results)
    print(rules_table(results))
    return 0


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.rules", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="per measurement")
    parser.add_argument("--json", type=Path, help="write raw results to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
