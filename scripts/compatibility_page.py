"""The page docs/compatibility.md, whose tables are made by programs.

What is between two markers is replaced, the rest of the page is left alone.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "compatibility.md"


def markers(target: str) -> tuple[str, str]:
    """The lines before and after what `make TARGET` writes."""
    made_by = f"<!-- Made by `make {target}`:"
    return f"{made_by} begin -->\n", f"{made_by} end -->\n"


def filled(page: str, target: str, between: str) -> str:
    """The page with other text between the markers. Raises ValueError."""
    begin, end = markers(target)
    before, found, rest = page.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise ValueError(f"{PAGE} must have the lines\n{begin}{end}")
    return f"{before}{begin}\n{between}\n{end}{after}"


def write(target: str, result: Path, run: str, section: Callable[[Any], str]) -> None:
    """Replace a section by what a result says; exits if there is none."""
    if not result.exists():
        sys.exit(f"{result} is not there: run `{run}`")
    try:
        between = section(json.loads(result.read_text()))
        PAGE.write_text(filled(PAGE.read_text(), target, between))
    except ValueError as error:
        sys.exit(str(error))
