"""The page about the configuration has the settings of the code."""

import re
import runpy
from pathlib import Path

from twinbus.config.config import load_config

SCRIPT = Path(__file__).parents[3] / "scripts" / "configuration_page.py"


def test_page_is_current() -> None:
    script = runpy.run_path(str(SCRIPT))
    assert script["PAGE"].read_text() == script["page"](), "run `make docs`"


def test_the_page_has_the_table() -> None:
    script = runpy.run_path(str(SCRIPT))
    assert script["settings"]() in script["PAGE"].read_text()


def test_the_example_of_the_page_can_be_used(tmp_path: Path) -> None:
    page = runpy.run_path(str(SCRIPT))["PAGE"].read_text()
    example = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert example is not None
    file = tmp_path / "bus.toml"
    file.write_text(example[1])
    config = load_config(file, {}, {})
    assert config.queues
    assert config.topics
    assert config.rules
