"""The page about Spark has all options and columns."""

import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "scripts" / "spark_page.py"


def test_page_is_current() -> None:
    script = runpy.run_path(str(SCRIPT))
    assert script["PAGE"].read_text() == script["page"](), "run `make docs`"


def test_the_page_has_every_part() -> None:
    script = runpy.run_path(str(SCRIPT))
    text = script["PAGE"].read_text()
    for name in script["PARTS"]:
        assert f"<!-- made by scripts/spark_page.py: {name} -->" in text


def test_defaults_are_those_of_options_that_exist() -> None:
    script = runpy.run_path(str(SCRIPT))
    assert set(script["read_defaults"]()) <= set(script["READ_OPTIONS"])
