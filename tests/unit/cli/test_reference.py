"""docs/reference/cli.md and configuration.md say what the code says.

The table of settings is checked by `tests/unit/scripts/test_configuration_page.py`.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from twinbus.cli import exit_codes
from twinbus.cli.main import app, run
from twinbus.config import load_config

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
CLI = (REFERENCE / "cli.md").read_text()
CONFIGURATION = (REFERENCE / "configuration.md").read_text()


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command and group of commands."""
    yield path
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, (*path, name))


COMMANDS = list(commands(get_command(app)))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_page_has_the_help_of_every_command(
    words: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run([*words, "--help"]) == exit_codes.OK
    shown = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())
    section = f"```text\n$ {' '.join(('twinbus', *words))} --help\n{shown.strip()}\n```"
    assert section in CLI, f"put this into docs/reference/cli.md:\n{section}"


def test_the_page_has_no_other_commands() -> None:
    shown = re.findall(r"^\$ twinbus ?(.*?) ?--help$", CLI, re.MULTILINE)
    assert sorted(shown) == sorted(map(" ".join, COMMANDS))


def test_the_page_has_every_exit_code() -> None:
    source = ast.parse(inspect.getsource(exit_codes))
    codes = [node for node in source.body if isinstance(node, ast.AnnAssign)]
    assert codes
    for node in codes:
        name = ast.unparse(node.target)
        assert f"| {getattr(exit_codes, name)} | {name} | " in CLI


def test_no_code_is_used_twice() -> None:
    codes = [value for value in vars(exit_codes).values() if isinstance(value, int)]
    assert len(codes) == len(set(codes))


def test_the_example_of_the_page_can_be_used(tmp_path: Path) -> None:
    example = re.search(r"```toml\n(.*?)```", CONFIGURATION, re.DOTALL)
    assert example is not None
    file = tmp_path / "bus.toml"
    file.write_text(example[1])
    config = load_config(file, {}, {})
    assert config.queues
    assert config.topics
    assert config.rules
