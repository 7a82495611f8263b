"""Asking before something is removed that does not come back."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from twinbus.cli import exit_codes
from twinbus.cli.failure import Failure

Yes = Annotated[
    bool, typer.Option("--yes", help="Do not ask. Needed where nobody can answer.")
]


def make_sure(verb: str, what: str, items: Sequence[str] = ()) -> None:
    """Ask whether to remove it, and show the items. Raises Failure in a script, which
    has to give --yes, and typer.Abort if the answer is no."""
    if not sys.stdin.isatty():
        raise Failure(
            f"Nobody can be asked whether to {verb} {what}: give --yes.",
            exit_codes.USAGE,
        )
    for item in items:
        print(item, file=sys.stderr)
    typer.confirm(f"{verb.capitalize()} {what}?", abort=True, err=True)
