"""`python -m bench.attackers`: flags, the soak, and a table of what it has shown."""

import argparse
import os
import sys
from pathlib import Path

from bench.attackers.attack import ATTACKS
from bench.attackers.outcome import MEMORY_MB, P99_MS, STOP_SECONDS, Outcome
from bench.attackers.soak import soak
from bench.machine import describe_machine
from bench.results import origin_of, write_results


def _flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.attackers",
        description="Attack a bus beside a client that does its work; 1 if a bar is "
        "missed.",
    )
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument(
        "--only", action="append", choices=sorted(ATTACKS), help="may be given often"
    )
    parser.add_argument(
        "--singly", action="store_true", help="each attack on a bus of its own"
    )
    parser.add_argument("--source", type=Path, help="another tree of twinbus")
    parser.add_argument("--json", type=Path, help="write the outcome to this file")
    return parser.parse_args()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _row(name: str, outcome: Outcome) -> str:
    waits = f"{outcome.p50_ms:8.1f} {outcome.p99_ms:8.0f} {outcome.max_ms:8.0f}"
    lock_outs = len(outcome.lock_outs)
    return (
        f"{name:26} {waits} {outcome.own_lateness_ms:8.0f} {outcome.memory_mb:8.0f} "
        f"{lock_outs:9d} {outcome.stop_seconds:7.1f}"
    )


def main() -> None:
    """Run the soak, or each attack singly."""
    flags = _flags()
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        sys.exit("bench.attackers: two cores are needed: the bus has one to itself")
    chosen = flags.only or list(ATTACKS)
    runs = {name: [name] for name in chosen} if flags.singly else {"all": chosen}
    print(f"{describe_machine()}; {flags.seconds:.0f} s each; waits in ms")
    print(f"{'attack':26} {'p50':>8} {'p99':>8} {'max':>8} {'own':>8} {'MB':>8} "
          f"{'lock-outs':>9} {'stop s':>7}")  # fmt: skip
    outcomes: list[Outcome] = []
    for name, attacks in runs.items():
        both = cores[0], cores[1]
        outcome = soak(name, attacks, flags.seconds, both, flags.source, _say)
        outcomes.append(outcome)
        print(_row(name, outcome), flush=True)
        for attack, tally in outcome.tallies.items():
            _say(f"  {attack}: {tally}")
        for text in outcome.missed():
            print(f"  missed: {text}", flush=True)
    print(f"bars: p99 {P99_MS:.0f} ms, {MEMORY_MB:.0f} MB, stop {STOP_SECONDS:.0f} s")
    if flags.json is not None:
        write_results(flags.json, origin_of("bench.attackers"), attackers=outcomes)
    sys.exit(any(outcome.missed() for outcome in outcomes))


if __name__ == "__main__":
    main()
