"""`python -m drills`: kill what a bus runs on, again and again, and count.

Ends with 0 if nothing was lost, nothing was stored twice that must not be, and every
entity answered again in time. Else with 1, and the first findings.
"""

import argparse
import asyncio
import logging
import shutil
import sys
import tempfile
from pathlib import Path

from bench.postgres_server import PostgresMissing

from .disasters import DISASTERS
from .drill import ANSWER_SECONDS, Report, run_drill

_STORES = ("sqlite", "mixed", "postgres", "standby")
_SHOWN = 5
_NO_SERVER = 4


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m drills", description=__doc__)
    parser.add_argument("--kind", choices=DISASTERS, default="broker")
    parser.add_argument(
        "--stores", choices=_STORES, help="of what kind the six stores are"
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--limit",
        type=float,
        default=ANSWER_SECONDS,
        help="seconds in which an entity must answer again",
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=3600.0,
        help="seconds after which the drill gives up, and tells what it waits for",
    )
    parser.add_argument("--keep", action="store_true", help="keep the data folder")
    given = parser.parse_args()
    usual = {"postgres": "postgres", "standby": "standby"}
    given.stores = given.stores or usual.get(given.kind, "mixed")
    return given


def _print(report: Report, limit_seconds: float) -> None:
    audit = report.audit
    slowest = max(
        (s for one in report.rounds for s in one.answered.values()), default=0.0
    )
    lines = {
        "rounds": len(report.rounds),
        "acknowledged": report.acknowledged_count,
        "transactions committed": report.transaction_count,
        "acknowledged and lost": len(audit.lost),
        "stored twice": len(audit.twice),
        "other broken promises": len(audit.broken),
        "not acknowledged": report.unacknowledged_count,
        "of those stored": audit.unacknowledged_copies,
        "errors shown to clients": sum(report.troubles.values()),
        "calls that hung": report.hung_count,
        f"slowest answer (limit {limit_seconds:.0f} s)": f"{slowest:.1f} s",
    }
    for name, value in lines.items():
        print(f"{name:32} {value}")
    print("   ", ", ".join(f"{n} {c}" for n, c in sorted(report.troubles.items())))
    for found in (audit.lost, audit.twice, audit.broken):
        for text in found[:_SHOWN]:
            print(text)


def main() -> int:
    given = _arguments()
    # The SDK tells at length of every connection that it loses.
    logging.disable(logging.CRITICAL)
    folder = Path(tempfile.mkdtemp(prefix="drill-"))
    try:
        report = asyncio.run(
            run_drill(
                folder,
                kind=given.kind,
                stores=given.stores,
                round_count=given.rounds,
                seed=given.seed,
                patience_seconds=given.patience,
                tell=lambda line: print(line, flush=True),
            )
        )
    except PostgresMissing as missing:
        print(missing, file=sys.stderr)
        return _NO_SERVER
    except TimeoutError:
        log = folder / "stderr"
        print("something did not come back; the last lines of the log:")
        print("\n".join(log.read_text().splitlines()[-40:]) if log.exists() else "")
        return 1
    finally:
        if given.keep:
            print(f"the data is in {folder}")
        else:
            shutil.rmtree(folder)
    _print(report, given.limit)
    return 0 if report.is_good(given.limit) else 1


if __name__ == "__main__":
    sys.exit(main())
