"""`twinbus stats`: its flags. What it does is in `watching/`."""

import json
from threading import Event
from typing import Annotated, Any, Final

import typer

from twinbus.cli.command_group import examples
from twinbus.cli.entity_flags import SERVER, Patterns
from twinbus.cli.flags import takes

EXAMPLES: Final = examples(
    "twinbus stats",
    "twinbus stats 'orders*' --for 2s",
    "twinbus stats --json",
)


@takes(*SERVER)
def stats(
    patterns: Patterns = None,
    lasts: Annotated[
        str,
        typer.Option(
            "--for", metavar="DURATION", help="How long rates are measured for."
        ),
    ] = "1s",
    **flags: Any,
) -> None:
    """Show counts, sizes and rates of entities, once.

    Rates are messages that came and that left in a second, while the command looked.
    """
    from twinbus.cli.messages.draft_flags import duration_of
    from twinbus.cli.tables import console
    from twinbus.cli.watching.bus_look import entity_rows, look
    from twinbus.cli.watching.bus_view import entity_lines, look_json

    seconds = duration_of(lasts, "--for") / 1000
    before = look(flags, patterns or ())
    Event().wait(seconds)
    now = look(flags, patterns or ())
    rows = entity_rows(now, before)
    if flags["is_json"]:
        print(json.dumps(look_json(now, rows), indent=2))
    elif rows:
        screen = console()
        for line in entity_lines(rows, screen.width, is_short=False):
            screen.print(line, soft_wrap=True)
    else:
        print("No entity matches." if patterns else "There are no entities.")
