"""The table of real clients agrees with the result file."""

import runpy
from pathlib import Path
from typing import Any

import pytest
from compatibility_page import filled, markers

ROOT = Path(__file__).parents[3]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "clients_page.py"))
section = SCRIPT["section"]
TARGET = "clients-page"
BEGIN, END = markers(TARGET)


def told(ok: bool | None, text: str = "") -> dict[str, Any]:
    return {"ok": ok, "text": text}


def client(title: str, **transports: dict[str, Any]) -> dict[str, Any]:
    return {"title": title, "transports": transports}


def test_a_cell_says_over_what_a_case_passed() -> None:
    results = {
        "b": client("B 2", tls={"send": told(True)}),
        "a": client(
            "A 1",
            plain={"send": told(True), "peek": told(True)},
            tls={"send": told(True), "peek": told(False, "no\nway | out")},
        ),
    }
    lines = section(results).splitlines()
    assert lines[0] == "| | A 1 | B 2 |"
    assert "| send | TCP, TLS | TLS |" in lines
    assert "| peek | TCP; **failed** TLS | - |" in lines
    assert "- A 1: no way \\| out (peek)" in lines


def test_what_a_client_has_no_call_for_has_its_reason_once() -> None:
    absent = told(None, "it has none")
    cases = {"peek": absent, "renew": absent}
    lines = section({"a": client("A", plain=cases, tls=cases)}).splitlines()
    assert "| peek | - |" in lines
    assert lines[-1] == "- A: it has none (peek, renew)"


def test_the_page_says_what_an_empty_cell_means() -> None:
    legend = SCRIPT["_LEGEND"]
    assert legend in section({"a": client("A", tls={"send": told(True)})})
    assert legend in (ROOT / "docs" / "compatibility.md").read_text()


def test_no_results_make_no_page() -> None:
    with pytest.raises(ValueError, match="no client was run"):
        section({})


def test_only_what_is_between_the_markers_is_replaced() -> None:
    page = f"before\n{BEGIN}old\n{END}after\n"
    assert filled(page, TARGET, "new") == f"before\n{BEGIN}\nnew\n{END}after\n"
    with pytest.raises(ValueError, match="must have the lines"):
        filled("nothing", TARGET, "new")


def test_the_page_has_its_place() -> None:
    page = (ROOT / "docs" / "compatibility.md").read_text()
    assert page.count(BEGIN) == page.count(END) == 1
