"""docs/reference/cli.md and configuration.md say what the code says."""

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from twinbus.cli import exit_codes
from twinbus.cli.main import app, run
from twinbus.cli.serve_command import serve
from twinbus.config import NO_SETTINGS, Config, load_config

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
CLI = (REFERENCE / "cli.md").read_text()
CONFIGURATION = (REFERENCE / "configuration.md").read_text()

SETTINGS = {
    field.name: getattr(Config(), field.name)
    for field in fields(Config)
    if field.name not in NO_SETTINGS
}
# As they are written in the file.
SETTINGS |= {name: "false" for name, value in SETTINGS.items() if value is False}


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


def test_every_setting_is_a_flag() -> None:
    assert set(inspect.signature(serve).parameters) == {*SETTINGS, "config"}


@pytest.mark.parametrize("name", SETTINGS)
def test_the_page_has_every_setting(name: str) -> None:
    flag, variable = f"--{name.replace('_', '-')}", f"TWINBUS_{name.upper()}"
    default = f"`{SETTINGS[name]}`" if SETTINGS[name] != "" else ""
    row = f"| `{name}` | `{flag}` | `{variable}` | {default} |".replace("  ", " ")
    assert row in CONFIGURATION


def test_the_flags_tell_the_true_defaults(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    run(["serve", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for name, default in SETTINGS.items():
        if default != "":
            pattern = (
                rf"Default: {re.escape(str(default))}\. \(TWINBUS_{name.upper()}\)"
            )
            assert re.search(pattern, shown), name


def test_the_example_of_the_page_can_be_used(tmp_path: Path) -> None:
    example = re.search(r"```toml\n(.*?)```", CONFIGURATION, re.DOTALL)
    assert example is not None
    file = tmp_path / "bus.toml"
    file.write_text(example[1])
    config = load_config(file, {}, {})
    assert config.queues
    assert config.topics
    assert config.rules
