"""The table of coverage has the sums over each package's files."""

import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "scripts" / "coverage_table.py"


def counts(lines: int, run: int, branches: int, branches_run: int) -> dict[str, int]:
    return {
        **{"num_statements": lines, "covered_lines": run},
        **{"num_branches": branches, "covered_branches": branches_run},
    }


def test_files_of_a_package_are_added_up() -> None:
    report = {
        "files": {
            "src/twinbus/broker/window.py": {"summary": counts(10, 9, 4, 1)},
            "src/twinbus/broker/descriptions/queue.py": {
                "summary": counts(10, 8, 0, 0)
            },
            "src/twinbus/limits.py": {"summary": counts(5, 5, 0, 0)},
        },
        "totals": counts(25, 22, 4, 1),
    }
    table = runpy.run_path(str(SCRIPT))["table"](report)
    assert [line.split() for line in table.splitlines()] == [
        ["Package", "Lines", "run", "Branches", "run"],
        ["(top)", "5", "100.0", "%", "0", "-"],
        ["broker", "20", "85.0", "%", "4", "25.0", "%"],
        ["all", "25", "88.0", "%", "4", "25.0", "%"],
    ]
