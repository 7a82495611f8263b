"""`twinbus check`: its flags. What it does is in `check.py`."""

from typing import Annotated, Any, Final

import typer

from twinbus.cli.bus_flags import FILES
from twinbus.cli.command_group import examples
from twinbus.cli.flags import takes

EXAMPLES: Final = examples(
    "twinbus check",
    "twinbus check --data /var/lib/twinbus --json",
    "twinbus check --accept-loss",
)


@takes(*FILES)
def check(
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss",
            help="If something is gone, accept the loss and keep what is left, so that "
            "the bus starts again.",
        ),
    ] = False,
    is_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, for programs.")
    ] = False,
    **flags: Any,
) -> None:
    """Check whether the stores of a bus are whole.

    Reads every page and every message. Ends with 0 if all is well, with 12 if
    something is damaged or gone. For files the bus must be stopped; a PostgreSQL store
    is checked as it is at one moment, and --accept-loss does nothing to it.
    """
    from twinbus.cli.check import run_check
    from twinbus.cli.settings import settings

    run_check(settings(**flags), accept_loss=accept_loss, is_json=is_json)
