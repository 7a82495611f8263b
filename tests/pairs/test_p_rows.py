"""Every row of the requirements of pairing has a test that names it.

A row counts if the docstring of a test begins with its name or lists it there:
`P6: ...`, `P7, A2: ...`.
"""

import ast
import re
from pathlib import Path

import pytest

ROWS = [f"P{number}" for number in range(1, 16)]
ROWS += ["A2", "A5", "G4", "G5", "G8", "G9"]
_NAMES = re.compile(r"^((?:[A-Z]\d+(?:, | to )?)+):")


def _rows_of(docstring: str) -> set[str]:
    named = _NAMES.match(docstring)
    return set(re.findall(r"[A-Z]\d+", named[1])) if named else set()


def _tests() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in sorted(Path(__file__).parent.glob("test_p*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                if node.name.startswith("test_"):
                    rows = _rows_of(ast.get_docstring(node) or "")
                    found[f"{path.name}: {node.name}"] = rows
    return found


@pytest.mark.parametrize("row", ROWS)
def test_a_row_has_a_test(row: str) -> None:
    assert [name for name, rows in _tests().items() if row in rows]


def test_tests_of_rows_name_them() -> None:
    aside = ("test_p_harness.py", "test_p_rows.py")
    nameless = [
        name
        for name, rows in _tests().items()
        if not rows and not name.startswith(aside)
    ]
    assert nameless == []
