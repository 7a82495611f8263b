"""`twinbus restore`: its flags. What it does is in `backup.py`."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from twinbus.cli.bus_flags import FILES
from twinbus.cli.command_group import examples
from twinbus.cli.entity_flags import Json
from twinbus.cli.flags import takes

EXAMPLES: Final = examples(
    "twinbus restore backups/monday --data restored",
    "twinbus restore backups/monday --data restored --dry-run",
    "twinbus restore backups/monday --data restored --store sqlite:///c.sqlite3 "
    "--store sqlite:///d.sqlite3 --json",
)


@takes(*FILES)
def restore(
    backup: Annotated[
        Path, typer.Argument(help="What 'twinbus backup' made.", metavar="FOLDER")
    ],
    is_dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Verify the backup and the places, no more."),
    ] = False,
    is_json: Json = False,
    **flags: Any,
) -> None:
    """Make a bus from a backup, where there is none yet.

    Verifies the backup, writes to the places that a bus with the same flags would use,
    and checks what it wrote. Nothing that exists is changed. A restore that was
    interrupted is run again; until it has ended, no bus starts with the folder.
    """
    from twinbus.cli.backup import run_restore
    from twinbus.cli.settings import settings

    run_restore(settings(**flags), backup, is_dry_run=is_dry_run, is_json=is_json)
