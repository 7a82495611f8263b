"""The results of the phases as one document, and as lines on the screen.

    {"sdk", "setup", "select", "keyword", "is_whole", "is_quick", "endpoint",
     "seconds", "counts", "live_counts", "modules", "exceptions", "tests"}

Counts have `tests`, `live`, `passed`, `failed` and `skipped`. A test is live if it
needs the server: a server is judged by `live_counts`. Each of `tests` has outcome,
reason, phase (setup, call, teardown, collect), seconds, live, notes and, where it
failed, detail.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from conformance.known import Verdict
from conformance.setups import ONE, PLAIN
from conformance.vendor import BUILD

Test = Mapping[str, Any]

_USUAL = (ONE, PLAIN)
_OUTCOMES = ("passed", "failed", "skipped")
# Of a reason on the screen; the result file has more.
_REASON_CHARACTERS = 160


def result_file(setup: str, transport: str = PLAIN) -> Path:
    """Where the result of a set-up is, unless another file is named."""
    parts = ("result", *(part for part in (setup, transport) if part not in _USUAL))
    return BUILD / f"{'-'.join(parts)}.json"


def counts(tests: Iterable[Test]) -> dict[str, int]:
    """How many there are, how many are live, and how they ended."""
    listed = list(tests)
    return {
        "tests": len(listed),
        "live": sum(test["live"] for test in listed),
        **{
            outcome: sum(test["outcome"] == outcome for test in listed)
            for outcome in _OUTCOMES
        },
    }


def document(
    tests: Mapping[str, Test], known: Mapping[str, str], about: Mapping[str, Any]
) -> dict[str, Any]:
    """The result file: what is known about the run, counts, every test."""
    modules = sorted({name.split("::")[0] for name in tests})
    return {
        **about,
        "counts": counts(tests.values()),
        "live_counts": counts(test for test in tests.values() if test["live"]),
        "modules": {
            module: counts(
                test for name, test in tests.items() if name.split("::")[0] == module
            )
            for module in modules
        },
        "exceptions": [
            {"test": name, "reason": reason}
            for name, reason in known.items()
            if name in tests
        ],
        "tests": dict(sorted(tests.items())),
    }


def write(result: Mapping[str, Any], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result, indent=1) + "\n")


def print_summary(result: Mapping[str, Any], verdict: Verdict, file: Path) -> None:
    """Counts by module, then what is wrong, then one line for all."""
    rows = {
        **result["modules"],
        "of all, live (need the server)": result["live_counts"],
    }
    for name, row in rows.items():
        print(f"{name:48}" + "".join(f"{row[o]:6} {o}" for o in _OUTCOMES))
    tests = result["tests"]
    _print_names("failed, and not listed in known.toml", verdict.failed, tests)
    listed = "listed in known.toml, and"
    _print_names(f"{listed} did not fail", verdict.listed_but_not_failed, tests)
    _print_names(f"{listed} unknown", verdict.listed_but_unknown, tests)
    total = result["counts"]
    print(f"\n{result['seconds']:.0f} s; every test is in {file}")
    print(", ".join(f"{total[outcome]} {outcome}" for outcome in _OUTCOMES))


def _print_names(title: str, names: tuple[str, ...], tests: Mapping[str, Test]) -> None:
    if names:
        print(f"\n{title}:")
    for name in names:
        print(f"  {name}")
        reason = tests[name]["reason"] if name in tests else ""
        if reason:
            print(f"    {reason.splitlines()[0][:_REASON_CHARACTERS]}")
