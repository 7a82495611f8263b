"""How examples and groups of commands are written, so that all look alike."""

from typing import Final

import typer

_HELP: Final = {"help_option_names": ["-h", "--help"]}


def examples(*lines: str) -> str:
    """The end of a help text. The backspace keeps its lines as they are."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))


def group(name: str, text: str, epilog: str | None = None) -> typer.Typer:
    """A group of commands. Its help has no boxes, which would cut off long flags."""
    return typer.Typer(
        name=name,
        help=text,
        epilog=epilog,
        context_settings=_HELP,
        add_completion=False,
        rich_markup_mode=None,
        invoke_without_command=True,
        callback=_help_if_alone,
    )


def _help_if_alone(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())
