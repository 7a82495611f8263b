"""How examples and groups of commands are written, so that all look alike."""

import typer


def examples(*lines: str) -> str:
    """The end of a help text. The backspace keeps its lines as they are."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))


def group(name: str, text: str, epilog: str | None = None) -> typer.Typer:
    """A set of commands. Help is plain: long flags are cut off in boxes."""
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
