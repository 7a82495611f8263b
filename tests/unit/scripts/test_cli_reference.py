"""The page about the command line has the help of every command, and is current."""

import ast
import inspect
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from twinbus.cli import exit_codes
from twinbus.cli.main import command_line, run

SCRIPT = runpy.run_path(str(Path(__file__).parents[3] / "scripts" / "cli_reference.py"))
CLI = SCRIPT["PAGE"].read_text()


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command and group of commands."""
    yield path
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, (*path, name))


COMMANDS = list(commands(get_command(command_line())))


def test_page_is_current() -> None:
    assert SCRIPT["page"]() == CLI, "run `make docs`"


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
