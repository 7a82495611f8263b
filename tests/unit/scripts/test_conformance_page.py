"""The table of the vendor's tests agrees with the result file."""

import runpy
from pathlib import Path
from typing import Any

import pytest
from compatibility_page import PAGE, filled, markers

ROOT = Path(__file__).parents[3]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "conformance_page.py"))
section = SCRIPT["section"]
TARGET = "conformance-page"
BEGIN, END = markers(TARGET)


def counts(**numbers: int) -> dict[str, int]:
    return {
        **dict.fromkeys(("tests", "live", "passed", "failed", "skipped"), 0),
        **numbers,
    }


def test_other_set_ups_have_their_totals_and_what_differs_there() -> None:
    known = [{"test": "a", "reason": "always"}]
    other = result(
        setup="partitioned",
        is_quick=True,
        exceptions=[*known, {"test": "b", "reason": "T15: numbers | of fragments"}],
    )
    page = section(result(exceptions=known), [other])
    assert "| one | 2 | 1 | 1 | 0 | 1 |" in page
    assert "| partitioned, without tests that sleep for a minute | 2 |" in page
    assert "| partitioned | `b` | T15: numbers \\| of fragments |" in page
    assert "| partitioned | `a` |" not in page
    assert "set-ups" not in section(result())


SKIPPED = {"outcome": "skipped", "reason": "skipped.toml: needs\nTLS | or so"}


def result(**changes: Any) -> dict[str, Any]:
    """A run of two tests, one of them skipped."""
    return {
        "sdk": "azure-servicebus 7.15.0",
        "select": "all",
        "is_whole": True,
        "counts": counts(tests=2, live=1, passed=1, skipped=1),
        "live_counts": counts(tests=1, live=1, skipped=1),
        "modules": {"test_a.py": counts(tests=2, live=1, passed=1, skipped=1)},
        "exceptions": [],
        "tests": {
            "test_a.py::one": {"outcome": "passed", "reason": ""},
            "test_a.py::two": {
                "outcome": "skipped",
                "reason": "skipped.toml: needs\nTLS | or so",
            },
        },
        **changes,
    }


def test_every_module_has_a_row() -> None:
    lines = section(result()).splitlines()
    assert "| `test_a.py` | 2 | 1 | 1 | 0 | 1 |" in lines
    assert "| **all** | 2 | 1 | 1 | 0 | 1 |" in lines
    assert "| **all that are live** | 1 | 1 | 0 | 0 | 1 |" in lines


def test_skipped_tests_are_counted_by_reason_in_one_line() -> None:
    assert "| 1 | needs TLS \\| or so |" in section(result()).splitlines()


def test_exceptions_have_their_reason() -> None:
    known = [{"test": "test_a.py::one", "reason": "it expects\nmore"}]
    text = section(result(exceptions=known))
    assert "| `test_a.py::one` | it expects more |" in text.splitlines()
    assert "No failure is excused." not in text
    assert "No failure is excused." in section(result())


def test_reasons_of_the_vendor_are_not_repeated() -> None:
    skipped = {"outcome": "skipped", "reason": "his words"}
    text = section(result(tests={"a": skipped, "b": skipped}))
    assert "| 2 | skipped by the vendor, too |" in text.splitlines()


def test_part_of_the_tests_is_refused() -> None:
    with pytest.raises(ValueError, match="the page is about all of them"):
        section(result(is_whole=False))


def test_only_what_is_between_the_markers_is_replaced() -> None:
    page = f"before\n{BEGIN}old\n{END}after\n"
    once = filled(page, TARGET, "new\n")
    assert once == f"before\n{BEGIN}\nnew\n\n{END}after\n"
    assert filled(once, TARGET, "new\n") == once


def test_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="must have the lines"):
        filled("nothing\n", TARGET, "new\n")


def test_the_page_has_the_markers() -> None:
    assert filled(PAGE.read_text(), TARGET, "new\n").count("new\n") >= 1
