"""`twinbus catalog ...`: its flags. What it does is in `catalog.py`."""

from typing import Annotated, Any, Final

import typer

from twinbus.cli.bus_flags import FILES
from twinbus.cli.command_group import examples, group
from twinbus.cli.entity_flags import Json
from twinbus.cli.flags import takes

_SHOW_EXAMPLES: Final = examples(
    "twinbus catalog show",
    "twinbus catalog show --catalog postgresql://db/bus --json",
)
_MOVE_EXAMPLES: Final = examples(
    "twinbus catalog move --to postgresql://bus@db/bus",
    "twinbus catalog move --catalog postgresql://bus@db/bus "
    "--to sqlite:///data/catalog.sqlite3",
)

app = group(
    "catalog",
    "Look at the catalog, which records entities, or move it.",
    examples(
        "twinbus catalog show",
        "twinbus catalog move --to postgresql://bus@db/bus",
    ),
)


@app.command("show", epilog=_SHOW_EXAMPLES)
@takes(*FILES)
def show(is_json: Json = False, **flags: Any) -> None:
    """Show what is in the catalog, and whether it is the valid one."""
    from twinbus.cli.catalog import run_show
    from twinbus.cli.settings import settings

    run_show(settings(**flags), is_json=is_json)


@app.command("move", epilog=_MOVE_EXAMPLES)
@takes(*FILES)
def move(
    to: Annotated[
        str,
        typer.Option(
            "--to",
            help="Where to: sqlite:///PATH or postgresql://HOST/DATABASE.",
            metavar="URL",
        ),
    ],
    **flags: Any,
) -> None:
    """Move the catalog to another place. The bus must be stopped.

    Afterwards the bus is started with --catalog and that place. The old catalog stays
    where it is, and says where it went. A move that was interrupted is run again.
    """
    from twinbus.cli.catalog import run_move
    from twinbus.cli.settings import settings

    run_move(settings(**flags), to)
