"""Prints how much of each package the unit and property tests run.

`make coverage` measures, writes what it found as JSON, and runs this with the name of
that file. The figures are those of plain Python: compiled code cannot be measured. A
module directly in `twinbus` counts as `(top)`.
"""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

PACKAGE = Path("src", "twinbus")
HEAD = ("Package", "Lines", "run", "Branches", "run")


def package_of(file: Path) -> str:
    first, *rest = file.relative_to(PACKAGE).parts
    return first if rest else "(top)"


def counts_by_package(report: Mapping[str, Any]) -> dict[str, Counter[str]]:
    packages: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for file, found in report["files"].items():
        packages[package_of(Path(file))].update(found["summary"])
    return packages


def share(part: int, total: int) -> str:
    return f"{100 * part / total:.1f} %" if total else "-"


def row(package: str, counts: Mapping[str, int]) -> tuple[str, ...]:
    lines, branches = counts["num_statements"], counts["num_branches"]
    return (
        package,
        str(lines),
        share(counts["covered_lines"], lines),
        str(branches),
        share(counts["covered_branches"], branches),
    )


def line(cells: Iterable[str]) -> str:
    first, *rest = cells
    return f"{first:<14}" + "".join(f"{cell:>10}" for cell in rest) + "\n"


def table(report: Mapping[str, Any]) -> str:
    packages = sorted(counts_by_package(report).items())
    rows = [row(name, counts) for name, counts in packages]
    return "".join(map(line, (HEAD, *rows, row("all", report["totals"]))))


if __name__ == "__main__":
    print(table(json.loads(Path(sys.argv[1]).read_text())), end="")
