"""`twinbus syphon`: bring a backlog back to its primary, once or until told to stop."""

import os
from typing import Annotated, Final

import typer

from twinbus.cli.command_group import examples
from twinbus.cli.connection_strings import PRIMARY, SECONDARY, connection_string
from twinbus.cli.entity_flags import Json
from twinbus.cli.pair_flags import (
    CountsBacklog,
    Cover,
    Primary,
    PrimaryName,
    Secondary,
)

EXAMPLES: Final = examples(
    "twinbus syphon --primary file:site-a --secondary file:site-b",
    "twinbus syphon --primary file:site-a --secondary file:site-b --once --json",
)


def syphon(
    primary: Primary = None,
    secondary: Secondary = None,
    primary_name: PrimaryName = None,
    cover: Cover = None,
    is_once: Annotated[
        bool, typer.Option("--once", help="End when the backlog is empty.")
    ] = False,
    counts_backlog: CountsBacklog = False,
    keeps_order: Annotated[
        bool,
        typer.Option(
            "--keep-session-order",
            help="Let nothing overtake what another syphon has left locked.",
        ),
    ] = False,
    is_json: Json = False,
) -> None:
    """Bring messages from the backlog queues back to the primary.

    Runs until it is told to stop (SIGTERM, or Ctrl-C), through outages of either side.
    With --once it ends with 0 when the backlog is empty, with 7 if a side does not
    answer, with 11 if messages had to stay or became dead letters.
    """
    sides = (
        connection_string(primary, "--primary", PRIMARY, os.environ),
        connection_string(secondary, "--secondary", SECONDARY, os.environ),
    )
    from twinbus.cli.syphon_run import SyphonCommand

    run = SyphonCommand(
        *sides,
        primary_name=primary_name,
        cover=tuple(cover or ()),
        is_once=is_once,
        counts_backlog=counts_backlog,
        keeps_order=keeps_order,
        is_json=is_json,
    )
    raise typer.Exit(run.main())
