"""The examples at the end of every `--help`, as a test finds them."""

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from twinbus.cli.main import command_line

_TITLE = "Examples:"


def help_examples() -> dict[str, list[str]]:
    """The lines of all commands and groups, by the words of the command."""
    return dict(_of(get_command(command_line()), ()))


def _of(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    _, _, text = (command.epilog or "").partition(_TITLE)
    yield " ".join(words), [line.strip() for line in text.splitlines() if line.strip()]
    for name, below in getattr(command, "commands", {}).items():
        yield from _of(below, (*words, name))
