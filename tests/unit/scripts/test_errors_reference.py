"""The page about errors says what the table says."""

import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "scripts" / "errors_reference.py"


def test_page_is_current() -> None:
    script = runpy.run_path(str(SCRIPT))
    assert script["PAGE"].read_text() == script["page"](), "run `make docs`"
