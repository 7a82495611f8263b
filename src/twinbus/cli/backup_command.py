"""`twinbus backup`: its flags. What it does is in `backup.py`."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from twinbus.cli.bus_flags import FILES
from twinbus.cli.command_group import examples
from twinbus.cli.entity_flags import Json
from twinbus.cli.flags import takes

EXAMPLES: Final = examples(
    "twinbus backup backups/monday",
    "twinbus backup /var/backups/bus-$(date +%F) --data /var/lib/twinbus --json",
    "twinbus backup backups/monday --store sqlite:///a.sqlite3 "
    "--store sqlite:///b.sqlite3",
)


@takes(*FILES)
def backup(
    to: Annotated[
        Path,
        typer.Argument(help="A folder that is not there yet.", metavar="FOLDER"),
    ],
    is_json: Json = False,
    **flags: Any,
) -> None:
    """Copy all stores and the catalog of a bus, as of one moment.

    The bus may run: its commits wait for some milliseconds, once. Everything that was
    confirmed before that moment is in the backup. The folder has a manifest with the
    digest of each file, and holds messages and keys: it is for its user alone.
    """
    from twinbus.cli.backup import run_backup
    from twinbus.cli.settings import settings

    run_backup(settings(**flags), to, is_json=is_json)
