"""Flags of the commands that read exported operation logs."""

from typing import Annotated

import typer

LogFolders = Annotated[
    list[str],
    typer.Argument(
        metavar="FOLDER...",
        help="Exported operation logs: of both sites, and of paired senders.",
        show_default=False,
    ),
]
Namespaces = Annotated[
    list[str] | None,
    typer.Option(
        "--namespace",
        metavar="NAME",
        help="A namespace that the logs must be of; may be repeated. Default: any.",
    ),
]
DamagedIsGap = Annotated[
    bool,
    typer.Option(
        "--damaged-is-gap",
        help="Go on without files that are damaged, and count them as gaps.",
    ),
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output", metavar="FOLDER", help="Where tables go, as Parquet. Default: none."
    ),
]
