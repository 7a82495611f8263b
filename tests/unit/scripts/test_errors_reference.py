"""The page about errors agrees with the table of errors."""

import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "scripts" / "errors_reference.py"


def test_page_is_current() -> None:
    script = runpy.run_path(str(SCRIPT))
    assert script["PAGE"].read_text() == script["page"](), "run `make docs`"
