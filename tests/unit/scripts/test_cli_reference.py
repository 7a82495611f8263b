"""The help texts on the page about the command line are those of the commands."""

import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "scripts" / "cli_reference.py"


def test_page_is_current() -> None:
    script = runpy.run_path(str(SCRIPT))
    assert script["PAGE"].read_text() == script["page"](), "run `make docs`"
