"""The page about the configuration has the settings of the code."""

import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "scripts" / "configuration_page.py"


def test_page_is_current() -> None:
    script = runpy.run_path(str(SCRIPT))
    assert script["PAGE"].read_text() == script["page"](), "run `make docs`"


def test_the_page_has_the_table() -> None:
    script = runpy.run_path(str(SCRIPT))
    assert script["settings"]() in script["PAGE"].read_text()
