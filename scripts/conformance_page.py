"""Fills the table of docs/compatibility.md from the result of `make conformance`.

Only a run of everything counts: one that left tests out would make the page say less
than the last one did, and look the same. What is between the two markers is replaced,
the rest of the page is left alone. `make conformance-page` runs it.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from compatibility_page import ROOT, write

RESULT = ROOT / "build" / "conformance" / "result.json"


# How reasons begin that are not the vendor's.
_OURS = "skipped.toml: "
_COLUMNS = ("tests", "live", "passed", "failed", "skipped")

Result = Mapping[str, Any]


def section(result: Result) -> str:
    """What stands between the markers."""
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
        ]
    )


def _table(result: Result) -> str:
    rows = [
        *(_row(f"`{name}`", counts) for name, counts in result["modules"].items()),
        _row("**all**", result["counts"]),
        _row("**all that are live**", result["live_counts"]),
    ]
    head = f"| Module | {' | '.join(_COLUMNS)} |\n|---|{'---:|' * len(_COLUMNS)}\n"
    return head + "".join(rows)


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
    write("conformance-page", RESULT, "make conformance", section)
