"""Fills the table of docs/compatibility.md from the result of `make conformance`.

Only a run of everything counts: one that left tests out would make the page say less
than the last one did, and look the same. Of the other set-ups there are the totals,
and what differs; a run without the slow tests is enough, and is named. What is between
the two markers is replaced, the rest of the page is left alone. `make conformance-page`
runs it.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from compatibility_page import ROOT, write

RESULT = ROOT / "build" / "conformance" / "result.json"


# Transports, as people call them.
_WAYS = {
    "tls": "over TLS",
    "ws": "over WebSockets",
    "wss": "over WebSockets with TLS",
}

# How reasons begin that are not the vendor's.
_OURS = "skipped.toml: "
_COLUMNS = ("tests", "live", "passed", "failed", "skipped")

Result = Mapping[str, Any]


def section(result: Result, others: Sequence[Result] = ()) -> str:
    """What stands between the markers; `others` are of other set-ups."""
    if not result["is_whole"]:
        raise ValueError(
            f"the result is of part of the tests (--select {result['select']}), and "
            "the page is about all of them: run `make conformance` without ARGS"
        )
    return "\n".join(
        [
            f"The tests that come with `{result['sdk'].replace(' ', '` ')}:\n",
            _table(result),
            _exceptions(result),
            _skipped(result),
            *([_setups(result, others)] if others else []),
        ]
    )


def _setups(result: Result, others: Sequence[Result]) -> str:
    rows = "".join(
        _row(_setup_name(other), other["counts"]) for other in (result, *others)
    )
    everywhere = {entry["test"] for entry in result["exceptions"]}
    differences = "".join(
        f"| {other['setup']} | `{entry['test']}` | {_cell(entry['reason'])} |\n"
        for other in others
        for entry in other["exceptions"]
        if entry["test"] not in everywhere
    )
    listed = (
        "Failures that are known there alone, with the row of the requirements that "
        f"says so:\n\n| Set-up | Test | Why |\n|---|---|---|\n{differences}"
    )
    return (
        "The same tests on other set-ups of the bus ([which]"
        f"(../conformance/README.md)):\n\n{_head('Set-up')}{rows}\n"
        + (listed if differences else "Nothing differs there.\n")
    )


def _setup_name(result: Result) -> str:
    name: str = result.get("setup", "one")
    way = result.get("transport", "plain")
    if way != "plain":
        name = f"{name}, {_WAYS[way]}"
    is_quick = result.get("is_quick", False)
    return f"{name}, without tests that sleep for a minute" if is_quick else name


def results_of_other_setups() -> list[Result]:
    """Those of runs that selected nothing, by name."""
    files = sorted(RESULT.parent.glob("result-*.json"))
    found = [json.loads(file.read_text()) for file in files]
    return [one for one in found if one["select"] == "all" and not one["keyword"]]


def _table(result: Result) -> str:
    rows = [
        *(_row(f"`{name}`", counts) for name, counts in result["modules"].items()),
        _row("**all**", result["counts"]),
        _row("**all that are live**", result["live_counts"]),
    ]
    return _head("Module") + "".join(rows)


def _head(first: str) -> str:
    return f"| {first} | {' | '.join(_COLUMNS)} |\n|---|{'---:|' * len(_COLUMNS)}\n"


def _row(name: str, counts: Mapping[str, int]) -> str:
    return f"| {name} | {' | '.join(str(counts[c]) for c in _COLUMNS)} |\n"


def _exceptions(result: Result) -> str:
    if not result["exceptions"]:
        return "No failure is excused.\n"
    rows = "".join(
        f"| `{entry['test']}` | {_cell(entry['reason'])} |\n"
        for entry in result["exceptions"]
    )
    return f"Failures that are known:\n\n| Test | Why |\n|---|---|\n{rows}"


def _skipped(result: Result) -> str:
    reasons = Counter(
        _reason_to_skip(test["reason"])
        for test in result["tests"].values()
        if test["outcome"] == "skipped"
    )
    if not reasons:
        return "None is skipped.\n"
    rows = "".join(
        f"| {count} | {_cell(reason)} |\n" for reason, count in sorted(reasons.items())
    )
    return f"Skipped, and why:\n\n| Tests | Why |\n|---:|---|\n{rows}"


def _reason_to_skip(reason: str) -> str:
    if reason.startswith(_OURS):
        return reason.removeprefix(_OURS)
    return "skipped by the vendor, too"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    others = results_of_other_setups()
    write(
        "conformance-page",
        RESULT,
        "make conformance",
        lambda result: section(result, others),
    )
