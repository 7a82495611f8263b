"""Makes flags, examples and groups of commands, so that all commands look alike."""

from typing import Any

import typer


def setting(flag: str, text: str, metavar: str) -> Any:
    """An option that can also be given by a variable.

    The value is not parsed here: `load_config` gets it as it was written, and knows all
    sources, their order and the type.
    """
    variable = f"TWINBUS_{flag.removeprefix('--').replace('-', '_').upper()}"
    return typer.Option(
        flag, help=f"{text} ({variable})", metavar=metavar, show_default=False
    )


def examples(*lines: str) -> str:
    """The end of a help text. The backspace keeps its lines as they are."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))


def group(name: str, text: str, epilog: str | None = None) -> typer.Typer:
    """A group of commands. Its help has no boxes, which would cut off long flags."""
    return typer.Typer(
        name=name,
        help=text,
        epilog=epilog,
        add_completion=False,
        rich_markup_mode=None,
        invoke_without_command=True,
        callback=_help_if_alone,
    )


def _help_if_alone(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())
