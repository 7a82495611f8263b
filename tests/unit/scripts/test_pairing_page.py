"""The page about pairing agrees with the policy."""

import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "scripts" / "pairing_page.py"


def test_page_is_current() -> None:
    script = runpy.run_path(str(SCRIPT))
    assert script["PAGE"].read_text() == script["page"](), "run `make docs`"


def test_the_page_has_every_part() -> None:
    script = runpy.run_path(str(SCRIPT))
    text = script["PAGE"].read_text()
    for name in script["PARTS"]:
        assert f"<!-- made by scripts/pairing_page.py: {name} -->" in text


def test_the_diagram_has_every_change_of_state() -> None:
    script = runpy.run_path(str(SCRIPT))
    drawn = script["states"]()
    for source, happenings in script["TRANSITIONS"].items():
        for happening, target in happenings.items():
            arrow = f"{source.name} --> {target.name}: {happening.value}\n"
            assert (arrow in drawn) == (source is not target)
