"""`twinbus check`: its flags. What it does is in `check.py`."""

import os
from typing import Annotated, Final

import typer

from twinbus.cli.bus_flags import ConfigFile, Data, Store
from twinbus.cli.command_group import examples

EXAMPLES: Final = examples(
    "twinbus check",
    "twinbus check --data /var/lib/twinbus --json",
    "twinbus check --accept-loss",
)


def check(
    config: ConfigFile = None,
    data: Data = None,
    store: Store = None,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss",
            help="If something is gone, take what is left as all there is, so that "
            "the bus starts again.",
        ),
    ] = False,
    is_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, for programs.")
    ] = False,
) -> None:
    """Check whether the files of a stopped bus are whole.

    Reads every page and every message. Ends with 0 if all is well, with 12 if
    something is damaged or gone.
    """
    from twinbus.cli.check import run_check
    from twinbus.cli.settings import settings

    chosen = settings(config, os.environ, {"data": data, "store": store})
    run_check(chosen, accept_loss=accept_loss, is_json=is_json)
