"""`twinbus log`: the operation log of a bus, exported to files or shown.

What the commands do is in `operation_log/`.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from twinbus.cli.bus_flags import FILES
from twinbus.cli.command_group import examples, group
from twinbus.cli.entity_flags import Json
from twinbus.cli.flags import setting_flag, takes

app = group(
    "log",
    "Export and show the operation log: who did what to which messages.",
    examples(
        "twinbus log show --last 20",
        "twinbus log export --folder operations --follow",
    ),
)

Folder = Annotated[
    Path,
    typer.Option(
        "--folder", metavar="DIR", help="Where the files go. It is made if needed."
    ),
]


@app.command(
    "export",
    epilog=examples(
        "twinbus log export --folder operations",
        "twinbus log export --data site-a --folder lake/log --namespace site-a "
        "--follow --every 60s --keep 30d --keep-megabytes 10000",
        "twinbus log export --store postgresql://bus@db/bus --folder operations --json",
    ),
)
@takes(*FILES, setting_flag("namespace", "What it is called in the rows."))
def _export(
    folder: Folder,
    is_following: Annotated[
        bool, typer.Option("--follow", help="Go on until it is told to stop.")
    ] = False,
    every: Annotated[
        str,
        typer.Option(
            "--every",
            metavar="DURATION",
            help="With --follow: how long operations wait for a file, at most.",
        ),
    ] = "60s",
    keep: Annotated[
        str,
        typer.Option(
            "--keep",
            metavar="DURATION",
            help="Remove files with older operations. Default: keep all.",
        ),
    ] = "",
    keep_megabytes: Annotated[
        int,
        typer.Option(
            "--keep-megabytes",
            metavar="NUMBER",
            min=0,
            help="Remove the oldest files of a store beyond this size; 0: keep all.",
        ),
    ] = 0,
    is_with_parent: Annotated[
        bool,
        typer.Option("--with-parent", hidden=True, help="End with the parent process."),
    ] = False,
    is_json: Json = False,
    **flags: Any,
) -> None:
    """Write the operation log of all stores to Parquet files.

    It reads the stores beside the bus, which may run. Each operation is written once,
    however often this is run, stopped or killed. The store keeps what is not exported
    yet. Needs pyarrow: pip install 'twinbus[log]'.
    """
    from twinbus.cli.operation_log.export import LogExport

    run = LogExport(
        folder=folder,
        every=every,
        keep=keep,
        keep_megabytes=keep_megabytes,
        is_json=is_json,
        flags=flags,
    )
    if is_following:
        run.follow(is_with_parent=is_with_parent)
    else:
        run.once()


@app.command(
    "show",
    epilog=examples(
        "twinbus log show",
        "twinbus log show --last 100 --entity orders --json",
    ),
)
@takes(*FILES)
def _show(
    last: Annotated[
        int,
        typer.Option("--last", metavar="NUMBER", min=1, help="So many operations."),
    ] = 20,
    entity: Annotated[
        str | None,
        typer.Option("--entity", metavar="NAME", help="Only those of this entity."),
    ] = None,
    is_json: Json = False,
    **flags: Any,
) -> None:
    """Show the last operations that the stores have, oldest first.

    The bus may run.
    """
    from twinbus.cli.operation_log.show import show_log

    show_log(last=last, entity=entity, is_json=is_json, flags=flags)
